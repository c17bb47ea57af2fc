"""The options of a task and of a call: their names, and what they may be."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final, TypedDict

from pgqueue_django.compat import InvalidTask
from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.policies import (
    BackoffPolicy,
    CancelPolicy,
    ExceptionPolicy,
    check_backoff,
    check_cancel,
    check_on_exception,
)
from pgqueue_django.specs import (
    clean_delay,
    clean_idempotency_key,
    clean_max_attempts,
    clean_task_name,
    clean_timeout,
    clean_unique_key,
)


class CallOptions(TypedDict, total=False):
    """What may be said of one call: the keywords of ``QueueTask.using()``."""

    priority: int | None
    queue_name: str | None
    run_after: datetime | None
    backend: str | None
    queue: str | None
    run_at: datetime | None
    delay: float | timedelta | None
    idempotency_key: str | None
    unique_key: str | None
    max_attempts: int | None
    timeout: float | timedelta | None


class TaskOptions(TypedDict, total=False):
    """What may be said of a task: the keywords of ``@task``."""

    name: str | None
    queue: str | None
    queue_name: str | None
    priority: int
    max_attempts: int | None
    backoff: BackoffPolicy | None
    on_exception: ExceptionPolicy | None
    timeout: float | timedelta | None
    cancel: CancelPolicy | None
    backend: str | None


OF_ONE_CALL: Final = (
    "priority",
    "queue_name",
    "run_after",
    "backend",
    "delay",
    "idempotency_key",
    "unique_key",
    "max_attempts",
    "timeout",
)

CLEANED: Final[Mapping[str, Callable[[Any], object]]] = {
    "registered_name": clean_task_name,
    "max_attempts": clean_max_attempts,
    "backoff": check_backoff,
    "on_exception": check_on_exception,
    "timeout": clean_timeout,
    "cancel": check_cancel,
    "delay": clean_delay,
    "idempotency_key": clean_idempotency_key,
    "unique_key": clean_unique_key,
}

_WORDS: Final = {
    "registered_name": "name",
    "task": "name",
    "timeout_seconds": "timeout",
}


def clean_option(name: str, value: object) -> Any:
    """Return the value of an option as a job stores it; None stays None.

    Raises:
        InvalidTask: It is wrong; the message begins with the option's name.
    """
    return None if value is None else _cleaned(name, CLEANED[name], value)


def _cleaned(name: str, clean: Callable[[Any], object], value: object) -> object:
    try:
        return clean(value)
    except InvalidJob as error:
        raise InvalidTask(f"{_WORDS.get(name, name)}: {error.message}") from error


def refuse_static(unknown: Mapping[str, object]) -> None:
    """Refuse what is known only when a task is called.

    Raises:
        TypeError: There is such an option; says where it belongs.
    """
    for name in ("run_after", "run_at", "delay", "idempotency_key", "unique_key"):
        if name in unknown:
            raise TypeError(
                f"{name} cannot be defined statically with the @task decorator. "
                f"Use .using({name}=...) to set it dynamically."
            )


def refuse_unknown(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse options that nobody knows.

    Raises:
        TypeError: There is one; suggests the nearest known.
    """
    for name in given:
        near = get_close_matches(name, known, n=1)
        advice = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
        raise TypeError(f"{where} has no option {name!r}. {advice}")


def first(*values: Any) -> Any:
    """Return the first value that is not None, or None."""
    return next((value for value in values if value is not None), None)


def only_one(**given: Any) -> Any:
    """Return the value of the one option that is given, or None.

    Raises:
        TypeError: More than one is given; names them.
    """
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise TypeError(f"{' and '.join(names)} exclude each other: give one of them")
    return first(*given.values())
