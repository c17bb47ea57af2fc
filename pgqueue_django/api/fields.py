"""The fields of ``POST /jobs``, checked all at once."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from pgqueue_django.api.errors import InvalidRequest
from pgqueue_django.cleaning import (
    clean_delay,
    clean_idempotency_key,
    clean_max_attempts,
    clean_priority,
    clean_queue,
    clean_run_at,
    clean_task_name,
    clean_unique_key,
)
from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.registry import registry
from pgqueue_django.serialization import dump_kwargs
from pgqueue_django.texts import brief, clean_text

# Messages about so many unknown fields help anybody; a body can have a million.
_UNKNOWN_NAMED: Final = 20
_NAME_BYTES: Final = 100

# RFC 3339, and offsets without minutes or colon, as PostgreSQL writes them.
_INSTANT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
    r"(?P<offset>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)


class Field(NamedTuple):
    """What a field holds.

    ``kind`` is for people, ``types`` are what ``parse_body`` makes of it, ``clean``
    raises ``InvalidJob``. ``nullable`` fields take null for "none".
    """

    kind: str
    types: tuple[type, ...]
    clean: Callable[[Any, str], object]
    nullable: bool = False


def read_fields(body: object) -> dict[str, Any]:
    """Check the body of a request for a new job.

    Args:
        body: What ``parse_body`` returned.

    Returns:
        The values of those fields that are there and not null, checked.

    Raises:
        InvalidRequest: It names every wrong or unknown field, and a missing ``task``.
    """
    given = as_object(body)
    errors: dict[str, list[str]] = unknown(given, FIELDS)
    values: dict[str, Any] = {}
    for name, field in FIELDS.items():
        if name in given:
            _check(name, field, given[name], values, errors)
    if "task" not in given:
        errors["task"] = ["is required: the name of a task"]
    if "run_at" in values and "delay_seconds" in values:
        errors["delay_seconds"] = ["cannot be given together with run_at"]
    if errors:
        raise InvalidRequest(errors)
    return values


def as_object(body: object) -> Mapping[str, object]:
    """Return a body that is a JSON object.

    Raises:
        InvalidRequest: It is another value.
    """
    if not isinstance(body, Mapping):
        raise InvalidRequest({"body": [f"must be an object, not {_kind_of(body)}"]})
    return body


def unknown(given: Iterable[str], known: Iterable[str]) -> dict[str, list[str]]:
    """Return a message for each name that is not known."""
    known = list(known)
    strange = [name for name in given if name not in known]
    errors = {
        clean_text(name, _NAME_BYTES): [_advice(name, known)]
        for name in strange[:_UNKNOWN_NAMED]
    }
    if len(strange) > _UNKNOWN_NAMED:
        errors["…"] = [f"{len(strange) - _UNKNOWN_NAMED:,} more unknown fields"]
    return errors


def _advice(name: str, known: list[str]) -> str:
    if near := get_close_matches(name[:_NAME_BYTES], known, n=1):
        return f"is unknown; did you mean {near[0]!r}?"
    return f"is unknown; known are {', '.join(known)}" if known else "is unknown"


def _check(
    name: str,
    field: Field,
    value: object,
    values: dict[str, Any],
    errors: dict[str, list[str]],
) -> None:
    if value is None and field.nullable:
        return
    # Not isinstance(): True is an int to Python.
    if type(value) not in field.types:
        errors[name] = [f"must be {field.kind}, not {_kind_of(value)}"]
        return
    try:
        values[name] = field.clean(value, name)
    except InvalidJob as error:
        errors[error.field] = [error.message]


def _kind_of(value: object) -> str:
    return _KINDS.get(type(value), type(value).__name__)


def _clean_task(value: str, field: str) -> str:
    name = clean_task_name(value, field)
    if registry.find(name) is None:
        near = get_close_matches(name, registry.names(), n=3)
        advice = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise InvalidJob(field, f"no task is registered as {brief(name)}{advice}")
    return name


def _clean_payload(value: dict[str, object], field: str) -> dict[str, object]:
    dump_kwargs(value, field)
    return value


def _clean_run_at(value: str, field: str) -> datetime:
    found = _INSTANT.fullmatch(value)
    if not found:
        words = f"{brief(value)} is no ISO 8601 time like 2030-01-31T12:00:00Z"
        raise InvalidJob(field, words)
    if not found["offset"]:
        words = f"{brief(value)} has no offset; append Z (for UTC) or +hh:mm"
        raise InvalidJob(field, words)
    try:
        return clean_run_at(datetime.fromisoformat(value.upper()), field)
    except ValueError as error:
        message = getattr(error, "message", f"{brief(value)} is no time: {error}")
        raise InvalidJob(field, message) from None


_KINDS: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number with a fraction or exponent",
    str: "a string",
    list: "an array",
    dict: "an object",
}

FIELDS: Final[Mapping[str, Field]] = {
    "task": Field("a string", (str,), _clean_task),
    "payload": Field("an object", (dict,), _clean_payload),
    "queue": Field("a string", (str,), clean_queue),
    "priority": Field("a whole number", (int,), clean_priority),
    "delay_seconds": Field("a number", (int, float), clean_delay, nullable=True),
    "run_at": Field("a string", (str,), _clean_run_at, nullable=True),
    "idempotency_key": Field("a string", (str,), clean_idempotency_key, nullable=True),
    "unique_key": Field("a string", (str,), clean_unique_key, nullable=True),
    "max_attempts": Field("a whole number", (int,), clean_max_attempts),
}
