"""How long finished jobs are kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from math import isfinite
from typing import Final

from pgqueue_django import limits
from pgqueue_django.states import FINISHED, State

_WEEK: Final = 7 * 86_400.0

# Seconds; None is for ever: what is dead waits for somebody to look at it.
DEFAULTS: Final[Mapping[str, float | None]] = {
    State.SUCCEEDED: _WEEK,
    State.CANCELLED: _WEEK,
    State.DEAD: None,
}

_KNOWN: Final = ", ".join(sorted(FINISHED))


class InvalidRetention(ValueError):
    """A retention has a wrong key or value.

    Args:
        path: The keys that lead to it.
        message: What would be right, and what it is.
    """

    def __init__(self, path: tuple[object, ...], message: str) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True, slots=True)
class Retention:
    """How long finished jobs are kept, by state, and otherwise for some queues."""

    by_state: Mapping[str, float | None] = field(default_factory=lambda: DEFAULTS)
    by_queue: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)

    def keep(self, queue: str, state: str) -> float | None:
        """Return the seconds from a job's finish to its end; None is for ever."""
        own = self.by_queue.get(queue, {})
        return own[state] if state in own else self.by_state[state]


def read_states(raw: object, *path: object) -> dict[str, float | None]:
    """Check what is kept by state: seconds, a timedelta, or None for ever.

    Args:
        raw: What the settings say.
        path: The keys that lead to it.

    Raises:
        InvalidRetention: It is no dict, names another state, or a value is wrong.
    """
    if not isinstance(raw, Mapping):
        raise InvalidRetention(path, f"must be a dict by state, not {raw!r}")
    return {_state(key, path): _seconds(raw[key], (*path, key)) for key in raw}


def read_queues(raw: object) -> dict[str, dict[str, float | None]]:
    """Check what is kept by queue and state.

    Raises:
        InvalidRetention: As in ``read_states``, or a queue's name is wrong.
    """
    if not isinstance(raw, Mapping):
        raise InvalidRetention((), f"must be a dict by queue, not {raw!r}")
    for queue in raw:
        if not isinstance(queue, str) or not 0 < len(queue) <= limits.QUEUE_CHARS:
            raise InvalidRetention((), f"must be by names of queues, not {queue!r}")
    return {queue: read_states(states, queue) for queue, states in raw.items()}


def _state(key: object, path: tuple[object, ...]) -> str:
    if key not in FINISHED:
        raise InvalidRetention(path, f"has no state {key!r}; known are {_KNOWN}")
    return str(key)


def _seconds(value: object, path: tuple[object, ...]) -> float | None:
    if value is None:
        return None
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not isfinite(value)
        or not 0 <= value <= limits.DELAY_SECONDS_MAX
    ):
        raise InvalidRetention(
            path,
            f"must be seconds or a timedelta from 0 to {limits.DELAY_SECONDS_MAX:,} s, "
            f"or None for ever, not {value!r}",
        )
    return float(value)
