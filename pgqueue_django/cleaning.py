"""Checks of single values, by the name of their field.

Each takes any object and returns what can be stored: a plain str, int, float or
datetime, equal to what was given. Nothing is converted in a way that changes its
meaning: 5.0 and True are no int, and a date is no datetime.

All raise ``InvalidJobType`` for a value of a wrong type and ``InvalidJob`` for a wrong
value, both with ``field`` as the name of what is wrong.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from django.conf import settings
from django.utils import timezone

from pgqueue_django import limits
from pgqueue_django.exceptions import InvalidJob, InvalidJobType
from pgqueue_django.texts import brief

# Both ends stay clear of what PostgreSQL, Python and time zone offsets can hold, so
# that no sum with a delay overflows.
_RUN_AT_MIN: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RUN_AT_MAX: Final = datetime(9000, 1, 1, tzinfo=UTC)

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


def clean_queue(value: object, field: str = "queue") -> str:
    """Check a queue's name.

    Args:
        value: Printable characters without white space, comma or equals sign (which
            ``--queues`` needs), at most ``limits.QUEUE_CHARS`` of them.
        field: The name that an error gives to the value.
    """
    text = _text(value, field, limits.QUEUE_CHARS)
    if not text.isprintable() or any(mark in text for mark in " ,="):
        words = "must be of printable characters without white space, ',' or '='"
        raise InvalidJob(field, f"{brief(text)} {words}")
    return text


def clean_task_name(value: object, field: str = "task") -> str:
    """Check a task's name.

    Args:
        value: Text without control characters and without white space at its ends, at
            most ``limits.TASK_CHARS`` characters.
        field: The name that an error gives to the value.
    """
    return _text(value, field, limits.TASK_CHARS)


def clean_idempotency_key(value: object, field: str = "idempotency_key") -> str:
    """Check an idempotency key.

    Args:
        value: Text without control characters and without white space at its ends, at
            most ``limits.IDEMPOTENCY_KEY_CHARS`` characters.
        field: The name that an error gives to the value.
    """
    return _text(value, field, limits.IDEMPOTENCY_KEY_CHARS)


def clean_unique_key(value: object, field: str = "unique_key") -> str:
    """Check a unique key.

    Args:
        value: Text without control characters and without white space at its ends, at
            most ``limits.UNIQUE_KEY_CHARS`` characters.
        field: The name that an error gives to the value.
    """
    return _text(value, field, limits.UNIQUE_KEY_CHARS)


def clean_priority(value: object, field: str = "priority") -> int:
    """Check a priority.

    Args:
        value: An int from ``limits.PRIORITY_MIN`` to ``limits.PRIORITY_MAX``.
        field: The name that an error gives to the value.
    """
    return _whole(value, field, limits.PRIORITY_MIN, limits.PRIORITY_MAX)


def clean_max_attempts(value: object, field: str = "max_attempts") -> int:
    """Check how many attempts a job has.

    Args:
        value: An int from 1 to ``limits.MAX_ATTEMPTS_MAX``.
        field: The name that an error gives to the value.
    """
    return _whole(value, field, 1, limits.MAX_ATTEMPTS_MAX)


def clean_delay(value: object, field: str = "delay") -> float:
    """Check a delay and return its seconds.

    Args:
        value: Seconds as an int or float, or a timedelta: 0 to
            ``limits.DELAY_SECONDS_MAX`` seconds.
        field: The name that an error gives to the value.
    """
    seconds = _seconds(value, field)
    if not 0 <= seconds <= limits.DELAY_SECONDS_MAX:
        words = f"must be 0 to {limits.DELAY_SECONDS_MAX:,} seconds"
        raise InvalidJob(field, f"{words}, not {brief(value)}")
    return float(seconds)


def clean_timeout(value: object, field: str = "timeout") -> float:
    """Check a time limit and return its seconds.

    Args:
        value: Seconds as an int or float, or a timedelta: more than 0, and at most
            ``limits.TIMEOUT_SECONDS_MAX`` seconds.
        field: The name that an error gives to the value.
    """
    seconds = _seconds(value, field)
    if not 0 < seconds <= limits.TIMEOUT_SECONDS_MAX:
        words = f"must be more than 0 and at most {limits.TIMEOUT_SECONDS_MAX:,}"
        raise InvalidJob(field, f"{words} seconds, not {brief(value)}")
    return float(seconds)


def clean_run_at(value: object, field: str = "run_at") -> datetime:
    """Check an instant and return it in UTC.

    Args:
        value: A datetime from 1970 to the end of 8999. A naive one is refused where
            ``settings.USE_TZ`` is true. Where it is false, it is read in
            ``settings.TIME_ZONE``: a time that the clock shows twice is the first of
            the two, and one that it skips counts on from before the gap, unless its
            ``fold`` says otherwise.
        field: The name that an error gives to the value.
    """
    if not isinstance(value, datetime):
        raise _wrong_type(value, field, "a datetime")
    try:
        aware = _aware(value, field)
        if _RUN_AT_MIN <= aware <= _RUN_AT_MAX:
            return aware.astimezone(UTC)
    except OverflowError:
        pass
    raise InvalidJob(field, f"must be from 1970 to 8999, not {brief(value)}")


def _aware(value: datetime, field: str) -> datetime:
    if timezone.is_aware(value):
        return value
    if settings.USE_TZ:
        words = "has no time zone; give it one (django.utils.timezone.make_aware)"
        raise InvalidJob(field, words)
    return timezone.make_aware(value, timezone.get_default_timezone())


def _text(value: object, field: str, max_chars: int) -> str:
    if not isinstance(value, str):
        raise _wrong_type(value, field, "a str")
    text = str.__str__(value)
    wrong = _what_is_wrong(text, max_chars)
    if wrong:
        raise InvalidJob(field, wrong)
    return text


def _what_is_wrong(text: str, max_chars: int) -> str:
    if not text:
        return "must not be empty"
    if len(text) > max_chars:
        return f"must have at most {max_chars} characters, not {len(text):,}"
    if text.strip() != text:
        return f"{brief(text)} must not begin or end with white space"
    return "" if text.isprintable() else _what_is_unprintable(text)


def _what_is_unprintable(text: str) -> str:
    if "\0" in text:
        return f"{brief(text)} has a NUL character (U+0000)"
    if _CONTROL.search(text):
        return f"{brief(text)} has a control character"
    return f"{brief(text)} has a lone surrogate" if _SURROGATE.search(text) else ""


def _whole(value: object, field: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_type(value, field, "an int")
    number = int.__int__(value)
    if not low <= number <= high:
        words = f"must be {low:,} to {high:,}, not {brief(number)}"
        raise InvalidJob(field, words)
    return number


def _seconds(value: object, field: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong_type(value, field, "seconds (an int or float) or a timedelta")
    return value


def _wrong_type(value: object, field: str, wanted: str) -> InvalidJobType:
    return InvalidJobType(field, f"must be {wanted}, not {type(value).__name__}")
