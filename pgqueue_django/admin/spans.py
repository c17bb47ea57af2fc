"""Spans of time in few characters."""

from datetime import timedelta
from typing import Final

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def in_words(span: timedelta, units: int = 1) -> str:
    """Return a span to its largest units: "3 h", "3 h 5 min"; "0 s" at the least."""
    rest = max(0, int(span.total_seconds()))
    parts: list[str] = []
    for unit, seconds in _UNITS:
        count, rest = divmod(rest, seconds)
        if count or parts:
            parts.append(f"{count} {unit}")
    return " ".join(part for part in parts[:units] if part[0] != "0") or "0 s"
