"""Text that PostgreSQL can always store, and values short enough to show."""

import re
from typing import Final, Literal

# PostgreSQL's text and jsonb hold neither, and a str may hold both.
_UNSTORABLE: Final = re.compile(r"[\x00\ud800-\udfff]")

_MARK: Final = "…"
_MARK_BYTES: Final = len(_MARK.encode())


def clean_text(
    text: str, max_bytes: int, *, keep: Literal["start", "end"] = "start"
) -> str:
    """Make a text storable.

    Args:
        text: Any text, however long.
        max_bytes: The most bytes that the answer takes as UTF-8. 0 or more.
        keep: Which end of a longer text stays.

    Returns:
        The text with each NUL and lone surrogate replaced by U+FFFD, cut between two
        characters and marked with an ellipsis where it was longer.
    """
    # The slice bounds the work: a character takes at least one byte.
    wide = max_bytes + 1
    part = str.__getitem__(text, slice(wide) if keep == "start" else slice(-wide, None))
    data = _UNSTORABLE.sub("\ufffd", part).encode()
    return data.decode() if len(data) <= max_bytes else _cut(data, max_bytes, keep)


def _cut(data: bytes, max_bytes: int, keep: Literal["start", "end"]) -> str:
    mark = _MARK if max_bytes >= _MARK_BYTES else ""
    room = max_bytes - len(mark.encode())
    if keep == "start":
        return data[:room].decode(errors="ignore") + mark
    return mark + data[len(data) - room :].decode(errors="ignore")


def brief(value: object, max_chars: int = 60) -> str:
    """Return a value's repr for an error message, cut, and whatever the repr does."""
    if isinstance(value, (str, bytes)):
        value = value[:max_chars]
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - any repr, and integers too long to print
        text = f"<{type(value).__name__}>"
    return clean_text(text, max_chars)


def preview(text: str, max_chars: int) -> str:
    """Return the start of a text, with its full length where it was cut."""
    if len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}{_MARK} ({len(text):,} characters)"
