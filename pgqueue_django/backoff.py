"""How long a job waits between a failed attempt and the next one."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import inf, isfinite, nan
from random import random as random_share

from pgqueue_django import limits
from pgqueue_django.texts import brief


@dataclass(frozen=True, kw_only=True, slots=True)
class Backoff:
    """Exponential growth up to a cap, with a random share against stampedes.

    Args:
        base: Seconds after the first failed attempt. 0 or more.
        factor: What each further attempt multiplies the delay by. 1 or more.
        cap: The longest delay in seconds, jitter included. 0 to
            ``limits.DELAY_SECONDS_MAX``.
        jitter: The random share of a delay. 0 is exact; 1 is anywhere between 0 and
            the full delay; the default keeps half fixed and spreads the other half.

    Raises:
        ValueError: A field is no finite number or out of its bounds; the message
            names it.
    """

    base: float = 2.0
    factor: float = 2.0
    cap: float = 3600.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        for each in fields(self):
            low, high = _BOUNDS[each.name]
            number = _checked(each.name, getattr(self, each.name), low, high)
            object.__setattr__(self, each.name, number)

    def delay(self, attempt: int, random: Callable[[], float] = random_share) -> float:
        """Return the seconds to wait after a failed attempt.

        Args:
            attempt: Which attempt failed, counted from 1. Less counts as 1.
            random: Gives a number from 0 to below 1.

        Returns:
            0 to ``cap``, whatever the attempt: this never overflows.
        """
        full = min(self._grown(attempt), self.cap)
        return min(full * (1 - self.jitter) + full * self.jitter * random(), full)

    def _grown(self, attempt: int) -> float:
        if self.base == 0:
            return 0.0
        try:
            return self.base * self.factor ** max(attempt - 1, 0)
        except OverflowError:
            return inf


# A cap beyond the longest delay would leave the range of the database's clock.
_BOUNDS = {
    "base": (0, inf),
    "factor": (1, inf),
    "cap": (0, limits.DELAY_SECONDS_MAX),
    "jitter": (0, 1),
}


def _checked(name: str, value: object, low: float, high: float) -> float:
    number = _number(value)
    if not isfinite(number) or not low <= number <= high:
        most = "" if high == inf else f" and at most {high:,}"
        words = f"must be a finite number, at least {low}{most}"
        raise ValueError(f"{name} {words}, not {brief(value)}")
    return number


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return nan
    try:
        return float(value)
    except OverflowError:
        return inf
