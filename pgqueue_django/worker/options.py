"""What a worker is told at its start, checked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import random

from django.db import connections

from pgqueue_django import limits
from pgqueue_django.conf import ASYNC_SLOTS_MAX, Settings, get_settings
from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.specs import clean_queue

THREADS_MAX = 1_000
WEIGHT_MAX = 1_000
MAX_JOBS_MAX = 2**31
MAX_RSS_MAX = 2**20


@dataclass(frozen=True, slots=True)
class Queues:
    """Queues in strict order, or by weight.

    Args:
        weights: The queues' names in order. Where weights are not None, a queue with a
            weight of 3 comes first three times as often as one with a weight of 1.
    """

    weights: Mapping[str, int | None]

    @property
    def names(self) -> frozenset[str]:
        """All names."""
        return frozenset(self.weights)

    @classmethod
    def parse(cls, queues: str | Iterable[str]) -> "Queues":
        """Read ``"a,b"`` or ``"a=3,b=1"``, or the parts as a list.

        Raises:
            InvalidJob: A name or a weight is wrong, or a queue is named twice.
        """
        if not isinstance(queues, Iterable):
            raise InvalidJob("queues", f"must be names, not {queues!r}")
        parts = queues.split(",") if isinstance(queues, str) else list(queues)
        weights: dict[str, int | None] = {}
        for part in parts:
            name, weight = _parse(part)
            if name in weights:
                raise InvalidJob("queues", f"{name!r} is there twice")
            weights[name] = weight
        if not weights:
            raise InvalidJob("queues", "must name at least one queue")
        if any(weight is not None for weight in weights.values()):
            weights = {name: weight or 1 for name, weight in weights.items()}
        return cls(weights)

    def order(self) -> Sequence[str]:
        """Return the names in the order for one round of claims."""
        if None in self.weights.values():
            return tuple(self.weights)
        # The largest of w-th roots of random numbers is a draw by weight.
        return sorted(
            self.weights,
            key=lambda name: random() ** (1 / (self.weights[name] or 1)),
            reverse=True,
        )

    def __str__(self) -> str:
        return ",".join(
            name if weight is None else f"{name}={weight}"
            for name, weight in self.weights.items()
        )


def _parse(part: object) -> tuple[str, int | None]:
    if not isinstance(part, str):
        raise InvalidJob("queues", f"must be names, not {part!r}")
    name, equals, weight = part.strip().partition("=")
    name = clean_queue(name, field="queues")
    if not equals:
        return name, None
    if (
        not weight.isascii()
        or not weight.isdigit()
        or len(weight) > len(str(WEIGHT_MAX))
        or not 1 <= int(weight) <= WEIGHT_MAX
    ):
        raise InvalidJob(
            "queues",
            f"the weight of {name!r} must be a whole number from 1 to {WEIGHT_MAX:,}, "
            f"not {weight!r}",
        )
    return name, int(weight)


def _setting(name: str) -> float:
    value: float = getattr(get_settings(), name)
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerOptions:
    """How a worker works; what is not given comes from ``settings.PGQUEUE``.

    Raises:
        InvalidJob: A value is wrong; the error names it.
    """

    queues: Queues = field(default_factory=lambda: Queues.parse(limits.DEFAULT_QUEUE))
    """Which queues to serve."""

    threads: int = 4
    """Synchronous handlers that run at the same time. 1 to 1,000."""

    async_slots: int = field(default_factory=lambda: get_settings().async_slots)
    """Async handlers that run at the same time, beside the threads. 1 to 10,000."""

    lease: float = field(default_factory=lambda: _setting("lease_seconds"))
    """Length of a lease in seconds. 0.3 to 86,400."""

    poll_interval: float = field(
        default_factory=lambda: _setting("poll_interval_seconds")
    )
    """Longest time between two looks for due jobs, in seconds. 0.01 to 3,600."""

    shutdown_timeout: float = field(
        default_factory=lambda: _setting("shutdown_timeout_seconds")
    )
    """How long running jobs may go on after a signal, in seconds. 0 to 86,400."""

    drain: bool = False
    """Whether to end when nothing is due any more."""

    max_jobs: int | None = None
    """After how many jobs to end; None is never."""

    max_rss: int | None = None
    """Above how many megabytes of resident memory to end; None is never."""

    database: str | None = None
    """Alias of the database that has the jobs; None leaves it to the routers."""

    name: str | None = None
    """First part of the worker's identity; None is the host's name."""

    def __post_init__(self) -> None:
        _check_whole("threads", self.threads, 1, THREADS_MAX)
        _check_whole("async_slots", self.async_slots, 1, ASYNC_SLOTS_MAX)
        _check_seconds("lease", self.lease, 0.3, 86_400)
        _check_seconds("poll_interval", self.poll_interval, 0.01, 3_600)
        _check_seconds("shutdown_timeout", self.shutdown_timeout, 0, 86_400)
        if self.max_jobs is not None:
            _check_whole("max_jobs", self.max_jobs, 1, MAX_JOBS_MAX)
        if self.max_rss is not None:
            _check_whole("max_rss", self.max_rss, 1, MAX_RSS_MAX)
        if not isinstance(self.drain, bool):
            raise InvalidJob("drain", f"must be True or False, not {self.drain!r}")
        if self.database is not None and self.database not in connections.settings:
            known = ", ".join(sorted(connections.settings))
            raise InvalidJob(
                "database", f"must be one of DATABASES ({known}), not {self.database!r}"
            )
        if self.name is not None:
            clean_queue(self.name, field="name")

    @property
    def heartbeat(self) -> float:
        """Age at which a lease is renewed (seconds): at most a third of its length."""
        configured: Settings = get_settings()
        return min(configured.heartbeat, self.lease / 3)


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or not low <= value <= high
    ):
        raise InvalidJob(
            name, f"must be a whole number from {low:,} to {high:,}, not {value!r}"
        )


def _check_seconds(name: str, value: object, low: float, high: float) -> None:
    if (
        not isinstance(value, (int, float))
        or isinstance(value, bool)
        or not low <= value <= high
    ):
        raise InvalidJob(
            name, f"must be seconds from {low:,} to {high:,}, not {value!r}"
        )
