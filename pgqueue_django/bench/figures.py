"""Figures: one number for each repeat, and what is told of them. Pure functions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median as _median
from typing import Any, Final

HIGHER_IS_BETTER: Final = frozenset({"jobs/s", "of floor", "of first", "of one"})
"""Units of which more is better; of all others less is."""

_DIGITS = 5


@dataclass(frozen=True, slots=True)
class Figure:
    """One number for each repeat.

    Args:
        unit: Of the numbers.
        values: One or more, in the order of the repeats.
    """

    unit: str
    values: tuple[float, ...]

    @classmethod
    def of(cls, unit: str, values: Iterable[float]) -> "Figure":
        """Make a figure of numbers, rounded to five significant digits."""
        return cls(unit, tuple(significant(value) for value in values))

    @property
    def median(self) -> float:
        """The middle one of the numbers."""
        return significant(_median(self.values))

    @property
    def spread(self) -> float:
        """The distance of the largest from the smallest, as a part of the median."""
        return spread(self.values)

    @property
    def higher_is_better(self) -> bool:
        """Whether more is better."""
        return self.unit in HIGHER_IS_BETTER

    def over(self, other: "Figure", unit: str = "of floor") -> "Figure":
        """Return this as parts of another figure, repeat by repeat."""
        pairs = zip(self.values, other.values, strict=True)
        return Figure.of(unit, (ratio(own, others) for own, others in pairs))

    def as_json(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
        return {
            "unit": self.unit,
            "median": self.median,
            "spread": self.spread,
            "values": list(self.values),
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "Figure":
        """Read what ``as_json`` returned.

        Raises:
            KeyError, TypeError, ValueError: It is something else.
        """
        return cls(str(stored["unit"]), tuple(float(v) for v in stored["values"]))


def ratio(value: float, base: float) -> float:
    """Return ``value / base``; infinite where the base is 0 and the value is not."""
    if base:
        return value / base
    return float("inf") if value else 1.0


def spread(values: Sequence[float]) -> float:
    """Return (largest - smallest) / median; 0 where the median is."""
    middle = _median(values)
    return significant((max(values) - min(values)) / abs(middle)) if middle else 0.0


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that so many percent of all are not above.

    Args:
        values: One or more, in any order.
        percent: Above 0, 100 at most.
    """
    ordered = sorted(values)
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]


def significant(value: float) -> float:
    """Round to five significant digits, so that output stays readable."""
    return float(f"{value:.{_DIGITS}g}")
