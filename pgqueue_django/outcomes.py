"""How an attempt ended, as the executor saw it; the completer makes it so."""

from dataclasses import dataclass

from pgqueue_django.failures import Failure


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned; ``result`` is JSON text."""

    result: str


@dataclass(frozen=True, slots=True)
class Committed(Succeeded):
    """The success is recorded already, in the handler's own transaction."""


@dataclass(frozen=True, slots=True)
class Retried:
    """The attempt failed, and another follows after ``delay`` seconds."""

    failure: Failure
    delay: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed, and no other follows."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler put its job off for ``delay`` seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler cancelled its job; ``failure`` says why."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Released:
    """The job was not run, or is given back unfinished."""


Outcome = Succeeded | Retried | Failed | Snoozed | Cancelled | Released
