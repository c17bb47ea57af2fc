"""``OPTIONS`` of a PgQueueBackend in ``settings.TASKS``."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Final

from django.conf import settings

from pgqueue_django.backoff import Backoff
from pgqueue_django.compat import InvalidTaskBackend
from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.policies import BackoffPolicy, check_backoff
from pgqueue_django.specs import clean_max_attempts, clean_queue, clean_timeout
from pgqueue_django.texts import brief


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """The checked options; field names are the keys of ``OPTIONS`` in lower case."""

    database: str | None = None
    """Alias of the database that has the jobs; None asks the routers."""

    max_attempts: int | None = None
    """For tasks that do not say; None leaves it to ``PGQUEUE["MAX_ATTEMPTS"]``."""

    backoff: BackoffPolicy | None = None
    """For tasks that do not say: a Backoff, a dict of its fields, or a function."""

    timeout: float | None = None
    """For tasks that do not say: seconds or a timedelta; None is without end."""


KEYS: Final = tuple(each.name.upper() for each in fields(BackendOptions))


def read_options(alias: str, raw: object) -> BackendOptions:
    """Check the ``OPTIONS`` of one alias.

    Raises:
        InvalidTaskBackend: A key is unknown or a value wrong; it names the first.
    """
    for problem in problems(alias, raw):
        raise InvalidTaskBackend(problem)
    assert isinstance(raw, Mapping)  # noqa: S101 - problems() has seen to it
    values: dict[str, Any] = {
        key.lower(): _CLEANERS[key](value)
        for key, value in raw.items()
        if value is not None
    }
    return BackendOptions(**values)


def problems(alias: str, raw: object) -> Iterator[str]:
    """Yield what is wrong with the ``OPTIONS`` of one alias."""
    where = f"TASKS[{alias!r}]['OPTIONS']"
    if not isinstance(raw, Mapping):
        yield f"{where} must be a dict, not {type(raw).__name__}."
        return
    for key, value in raw.items():
        if key not in KEYS:
            yield f"{where} has no key {key!r}. {_suggest(key)}"
        elif value is not None and (wrong := _wrong(key, value)):
            yield f"{where}[{key!r}]: {wrong}."


def queue_problems(alias: str, raw: object) -> Iterator[str]:
    """Yield what is wrong with the ``QUEUES`` of one alias."""
    where = f"TASKS[{alias!r}]['QUEUES']"
    if not isinstance(raw, list | tuple | set | frozenset):
        yield f"{where} must be a list of names, not {brief(raw)}."
        return
    for name in raw:
        try:
            clean_queue(name)
        except InvalidJob as error:
            yield f"{where}: {brief(name)}: {error.message}."


def _suggest(key: object) -> str:
    near = get_close_matches(str(key).upper(), KEYS, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(KEYS)}."


def _wrong(key: str, value: object) -> str:
    try:
        _CLEANERS[key](value)
    except InvalidJob as error:
        return error.message
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def _clean_backoff(value: object) -> BackoffPolicy:
    return check_backoff(Backoff(**value) if isinstance(value, dict) else value)


def _clean_database(value: object) -> str:
    if not isinstance(value, str) or value not in settings.DATABASES:
        known = ", ".join(settings.DATABASES)
        raise ValueError(f"must be an alias of DATABASES ({known}), not {brief(value)}")
    return value


_CLEANERS: Final[Mapping[str, Callable[[Any], object]]] = {
    "DATABASE": _clean_database,
    "MAX_ATTEMPTS": clean_max_attempts,
    "BACKOFF": _clean_backoff,
    "TIMEOUT": clean_timeout,
}
