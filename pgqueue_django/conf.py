"""``settings.PGQUEUE``: every key, its default, its unit and its bounds.

``conf.settings`` is read at use, never at import, and follows ``override_settings``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from difflib import get_close_matches
from functools import lru_cache
from math import isfinite
from typing import Any

from django.conf import settings as django_settings
from django.core.signals import setting_changed

from pgqueue_django import limits
from pgqueue_django.exceptions import InvalidSettings
from pgqueue_django.retention import (
    DEFAULTS,
    InvalidRetention,
    Retention,
    read_queues,
    read_states,
)

DURABILITIES = ("batched", "per_job")
ASYNC_SLOTS_MAX = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The checked settings; field names are the keys of ``PGQUEUE`` in lower case.

    Raises:
        InvalidSettings: A value is of a wrong type or out of its bounds.
    """

    task_modules: tuple[str, ...] = ()
    """Modules with tasks beside the ``tasks`` module of each installed app."""

    max_attempts: int = limits.DEFAULT_MAX_ATTEMPTS
    """Attempts of a job whose task does not say. 1 to 10,000."""

    lease_seconds: float = 30.0
    """How long a claim owns a job without renewal. 0.3 to 86,400."""

    heartbeat_seconds: float | None = None
    """Time between renewals; at most a third of the lease, which is the default."""

    poll_interval_seconds: float = 1.0
    """Longest time between two looks for due jobs; ten times as long for workers that
    hear NOTIFY. 0.01 to 3,600.
    """

    reap_interval_seconds: float = 30.0
    """Longest time between two looks for expired leases, beside those at the moments
    when leases end; a worker with shorter leases looks once a lease. 0.01 to 3,600.
    """

    shutdown_timeout_seconds: float = 25.0
    """How long a stopping worker waits for running jobs. 0 to 86,400."""

    async_slots: int = 100
    """Async handlers that a worker process runs at the same time, beside its threads. 1
    to 10,000.
    """

    flush_size: int = 200
    """Outcomes recorded in one statement at most. 1 to 10,000."""

    flush_milliseconds: float = 2.0
    """Longest time an outcome waits for others to share its statement. 0 to 1,000."""

    notify: bool = True
    """Whether to send and hear NOTIFY; off behind a transaction pooler."""

    prepared_statements: bool = True
    """Whether workers prepare statements on the server; off behind such a pooler."""

    durability: str = "batched"
    """Whether outcomes share commits, ``batched``, or not, ``per_job``."""

    counters: bool = True
    """Whether what happens to jobs is counted; without it metrics have no totals."""

    metrics_token: str | None = None
    """What a scraper of ``/metrics`` sends as a bearer; None lets in users only. 20 to
    1,000 ASCII letters, digits and signs.
    """

    retention: Mapping[str, float | timedelta | None] = field(default_factory=dict)
    """How long finished jobs are kept, by state, in seconds or as a timedelta; None is
    for ever. What is left out: 7 days for succeeded and cancelled, for ever for dead.
    """

    queue_retention: Mapping[str, Mapping[str, float | timedelta | None]] = field(
        default_factory=dict
    )
    """The same for single queues, by queue and state, where it differs."""

    _retention: Retention = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_modules(self)
        for name, bounds in _BOUNDS.items():
            _check_number(name, getattr(self, name), bounds)
        for name in ("notify", "prepared_statements", "counters"):
            if not isinstance(getattr(self, name), bool):
                raise _invalid(name, "True or False", getattr(self, name))
        if self.durability not in DURABILITIES:
            raise _invalid("durability", " or ".join(DURABILITIES), self.durability)
        _check_token(self.metrics_token)
        _check_heartbeat(self)
        object.__setattr__(self, "_retention", _read_retention(self))

    @property
    def heartbeat(self) -> float:
        """Seconds between two renewals of a lease."""
        return self.heartbeat_seconds or self.lease_seconds / 3

    def retention_of(self, queue: str, state: str) -> float | None:
        """Return the seconds for which a finished job is kept; None is for ever."""
        return self._retention.keep(queue, state)


@dataclass(frozen=True, slots=True)
class _Bounds:
    low: float
    high: float
    whole: bool = field(default=False)

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {self.low:,} to {self.high:,}"


_BOUNDS: Mapping[str, _Bounds] = {
    "max_attempts": _Bounds(1, limits.MAX_ATTEMPTS_MAX, whole=True),
    "lease_seconds": _Bounds(0.3, 86_400),
    "poll_interval_seconds": _Bounds(0.01, 3_600),
    "reap_interval_seconds": _Bounds(0.01, 3_600),
    "shutdown_timeout_seconds": _Bounds(0, 86_400),
    "async_slots": _Bounds(1, ASYNC_SLOTS_MAX, whole=True),
    "flush_size": _Bounds(1, 10_000, whole=True),
    "flush_milliseconds": _Bounds(0, 1_000),
}


def _invalid(name: str, wanted: str, value: object) -> InvalidSettings:
    return InvalidSettings(f"PGQUEUE[{name.upper()!r}] must be {wanted}, not {value!r}")


def _check_modules(checked: Settings) -> None:
    modules = checked.task_modules
    if not isinstance(modules, tuple) or not all(isinstance(m, str) for m in modules):
        raise _invalid("task_modules", "a list of module names", modules)


def _check_number(name: str, value: object, bounds: _Bounds) -> None:
    kinds = (int,) if bounds.whole else (int, float)
    if (
        not isinstance(value, kinds)
        or isinstance(value, bool)
        or not isfinite(value)
        or not bounds.low <= value <= bounds.high
    ):
        raise _invalid(name, str(bounds), value)


def _check_token(token: object) -> None:
    if token is not None and not (
        isinstance(token, str) and re.fullmatch(r"[!-~]{20,1000}", token)
    ):
        # The value is a secret, even a wrong one.
        raise InvalidSettings(
            "PGQUEUE['METRICS_TOKEN'] must be 20 to 1,000 ASCII characters without "
            "spaces, or None"
        )


def _check_heartbeat(checked: Settings) -> None:
    if checked.heartbeat_seconds is None:
        return
    longest = checked.lease_seconds / 3
    _check_number("heartbeat_seconds", checked.heartbeat_seconds, _Bounds(0.1, longest))


def _read_retention(checked: Settings) -> Retention:
    key = "RETENTION"
    try:
        by_state = {**DEFAULTS, **read_states(checked.retention)}
        key = "QUEUE_RETENTION"
        return Retention(by_state, read_queues(checked.queue_retention))
    except InvalidRetention as error:
        path = "".join(f"[{str(part)!r}]" for part in error.path)
        raise InvalidSettings(f"PGQUEUE[{key!r}]{path} {error}") from None


KEYS = tuple(f.name.upper() for f in fields(Settings) if f.init)


def read(raw: object) -> Settings:
    """Check a ``PGQUEUE`` dict.

    Raises:
        InvalidSettings: It is no dict, has an unknown key, or a value out of bounds.
    """
    if not isinstance(raw, Mapping):
        raise InvalidSettings(f"PGQUEUE must be a dict, not {type(raw).__name__}")
    for key in raw:
        if key not in KEYS:
            raise InvalidSettings(f"PGQUEUE has no key {key!r}.{_suggest(key)}")
    values: dict[str, Any] = {key.lower(): value for key, value in raw.items()}
    if isinstance(values.get("task_modules"), list):
        values["task_modules"] = tuple(values["task_modules"])
    return Settings(**values)


def _suggest(key: object) -> str:
    near = get_close_matches(str(key).upper(), KEYS, n=1)
    return f" Did you mean {near[0]!r}?" if near else f" Known: {', '.join(KEYS)}."


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """Return the project's settings, checked once."""
    return read(getattr(django_settings, "PGQUEUE", {}))


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "PGQUEUE":
        get_settings.cache_clear()


setting_changed.connect(_forget, dispatch_uid="pgqueue_django.conf")
