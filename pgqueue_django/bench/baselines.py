"""Stored reports, and whether a new one is worse."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.figures import Figure, ratio
from pgqueue_django.bench.reports import Report

Verdict = Literal["same", "better", "worse"]

# A change of the median below a tenth is the machine's mood. So is a larger one while
# the repeats of both runs overlap.
_TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure beside its stored one."""

    name: str
    verdict: Verdict
    median: float
    stored: float

    def as_json(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "median": self.median,
            "stored": self.stored,
        }


def save(report: Report, path: Path) -> None:
    """Store a report as a baseline."""
    path.write_text(json.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")


def load(path: Path, bench: str) -> dict[str, Any]:
    """Read a stored report.

    Raises:
        BenchError: It cannot be read, is no report, or another bench's.
    """
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        names = {str(name) for name in _figures(stored)}
    except OSError as error:
        raise BenchError(f"cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchError("is no report that --save has written") from error
    if not names or stored.get("bench") != bench:
        raise BenchError(f"is a report of {stored.get('bench')!r}, not of {bench!r}")
    return dict(stored)


def _figures(stored: dict[str, Any]) -> dict[str, Figure]:
    return {k: Figure.from_json(v) for k, v in stored["measured"].items()}


def compare(report: Report, stored: dict[str, Any]) -> list[Compared]:
    """Hold each measured figure against the stored one of that name.

    Raises:
        BenchError: The stored one was made with other options.
    """
    if stored["options"] != json.loads(json.dumps(dict(report.options))):
        raise BenchError(
            f"was made with other options ({stored['options']}), not with "
            f"{dict(report.options)}"
        )
    before = _figures(stored)
    return [
        Compared(name, verdict(now, before[name]), now.median, before[name].median)
        for name, now in report.measured.items()
        if name in before
    ]


def verdict(now: Figure, before: Figure) -> Verdict:
    """Say whether a figure has changed by more than chance would explain.

    Returns:
        ``"same"`` for a change of less than a tenth of the median, or where the ranges
        of the repeats overlap.
    """
    change = ratio(now.median, before.median) - 1
    if abs(change) <= _TOLERANCE or _overlap(now, before):
        return "same"
    return "better" if (change > 0) == now.higher_is_better else "worse"


def _overlap(one: Figure, other: Figure) -> bool:
    if len(one.values) == len(other.values) == 1:
        return False
    return min(one.values) <= max(other.values) and min(other.values) <= max(one.values)


def overall(compared: list[Compared]) -> Verdict:
    """Return one verdict for all: worse where any is, better where one is."""
    verdicts = {each.verdict for each in compared}
    if "worse" in verdicts:
        return "worse"
    return "better" if "better" in verdicts else "same"
