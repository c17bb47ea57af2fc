"""What a task says about failures: how long to wait, and after what to give up."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias

from pgqueue_django.backoff import Backoff
from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.specs import clean_delay
from pgqueue_django.texts import brief

BackoffPolicy: TypeAlias = Backoff | Callable[[int], float]
"""A ``Backoff``, or a function from the number of the failed attempt to seconds."""

Reaction: TypeAlias = Literal["retry", "give_up"] | float
"""What follows a failed attempt: a retry after the backoff, death, or a retry after so
many seconds."""

ExceptionPolicy: TypeAlias = Mapping[
    type[BaseException], Literal["retry", "give_up"] | float | timedelta
]
"""Reactions by the class of the exception; the nearest class counts."""

CancelPolicy: TypeAlias = Literal["cooperative", "interrupt"]
"""What a cancel does to a running handler: it sets ``should_stop``, and may interrupt
the handler as a timeout does."""

_WORDS: Final = ("retry", "give_up")

_CANCEL_WORDS: Final[tuple[CancelPolicy, ...]] = ("cooperative", "interrupt")


def check_backoff(value: object) -> BackoffPolicy:
    """Return a backoff policy as it is.

    Raises:
        InvalidJob: It is neither a Backoff nor a function.
    """
    # A class is callable too, but what it makes is no number of seconds.
    if isinstance(value, Backoff) or (callable(value) and not isinstance(value, type)):
        return value
    raise InvalidJob(
        "backoff",
        "must be a Backoff, or a function that takes the number of the failed attempt "
        f"and returns seconds, not {brief(value)}",
    )


def check_cancel(value: object) -> CancelPolicy:
    """Return what a cancel does to a running handler.

    Raises:
        InvalidJob: There is no such policy; suggests the nearest.
    """
    for word in _CANCEL_WORDS:
        if value == word:
            return word
    near = get_close_matches(str(value)[:20].lower(), _CANCEL_WORDS, n=1)
    advice = f". Did you mean {near[0]!r}?" if near else ""
    raise InvalidJob(
        "cancel",
        f"must be 'cooperative' or 'interrupt', not {brief(value)}{advice}",
    )


def check_on_exception(value: object) -> ExceptionPolicy:
    """Return a copy of an exception policy.

    Raises:
        InvalidJob: It is no mapping, or has a wrong class or reaction.
    """
    if not isinstance(value, Mapping):
        raise InvalidJob(
            "on_exception",
            "must be a dict from exception classes to 'retry', 'give_up' or a delay, "
            f"not {brief(value)}",
        )
    for error_class, reaction in value.items():
        _check_entry(error_class, reaction)
    return dict(value)


def _check_entry(error_class: object, reaction: object) -> None:
    if not isinstance(error_class, type) or not issubclass(error_class, BaseException):
        raise InvalidJob(
            "on_exception",
            f"{brief(error_class)} must be an exception class, without ()",
        )
    if isinstance(reaction, str):
        if reaction not in _WORDS:
            raise InvalidJob(
                "on_exception",
                f"{error_class.__name__}: must be 'retry', 'give_up', seconds or a "
                f"timedelta, not {brief(reaction)}",
            )
        return
    clean_delay(reaction, field=f"on_exception: {error_class.__name__}")


def reaction_to(error: BaseException, policy: ExceptionPolicy | None) -> Reaction:
    """Return what a policy says of an exception; "retry" where it says nothing."""
    for base in type(error).__mro__:
        if policy and base in policy:
            reaction = policy[base]
            if isinstance(reaction, timedelta):
                return reaction.total_seconds()
            return reaction
    return "retry"
