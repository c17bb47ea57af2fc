"""What a task must be so that a worker can run it: refusals with advice.

Each begins with the words of Django's own backends, where these refuse the same.
"""

import inspect
import sys
from collections.abc import Callable, Collection
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from types import FunctionType
from typing import Any, Final

from django.conf import settings
from django.utils import timezone

from pgqueue_django import limits
from pgqueue_django.compat import AnyTask, InvalidTask
from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.specs import clean_queue, clean_run_at
from pgqueue_django.texts import brief

_MODULE_LEVEL: Final = "Task function must be defined at a module level."
_ADVICE: Final = (
    "Workers find a task by importing its module: make it a plain function at the top "
    "of a `tasks` module of an installed app, or of a module in "
    "PGQUEUE['TASK_MODULES']."
)


def check_task(task: AnyTask, queues: Collection[str]) -> None:
    """Check what Django's own checks leave open, or would stumble over.

    Raises:
        InvalidTask: The task cannot be run, or its priority, queue or time is wrong.
    """
    if not inspect.isfunction(task.func):
        raise _not_at_module_level(task.func)
    _check_function(task.func)
    _check_priority(task.priority)
    _check_queue(task.queue_name, queues)
    if task.run_after is not None:
        _check_run_after(task.run_after)


# Once for each that passes: a look at where it is costs as much as the rest together.
@lru_cache(maxsize=1_024)
def _check_function(func: FunctionType) -> None:
    if function_problem(func):
        raise _not_at_module_level(func)
    _check_kind(func)


def _not_at_module_level(func: object) -> InvalidTask:
    return InvalidTask(f"{_MODULE_LEVEL} {function_problem(func)} {_ADVICE}")


def function_problem(func: object) -> str:
    """Say why no worker could import a function; "" if one can."""
    if not inspect.isfunction(func):
        return f"{brief(func)} is no function, but of type {type(func).__name__}."
    name = func.__qualname__
    if "<lambda>" in name:
        return "A lambda has no name to import it by."
    if "<locals>" in name:
        return (
            f"{name} is made inside another function (a decorator needs "
            "functools.wraps)."
        )
    if "." in name:
        return f"{name} is a method."
    return _module_problem(func)


def _module_problem(func: Callable[..., Any]) -> str:
    module = sys.modules.get(func.__module__ or "")
    if func.__module__ == "__main__":
        return f"{func.__qualname__} is in __main__: a script, a shell, or python -m."
    # A shell runs its lines in a namespace of its own, under the name of its command.
    if module is None or not _is_of(module.__dict__, func):
        return f"{func.__qualname__} is in no module that can be imported."
    return ""


def _is_of(namespace: dict[str, Any], func: Callable[..., Any]) -> bool:
    # A wrapped function has the name and module of the inner one, but the globals of
    # its decorator's module.
    return any(
        getattr(each, "__globals__", None) is namespace
        for each in (func, inspect.unwrap(func))
    )


def _check_kind(func: Callable[..., Any]) -> None:
    if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
        raise InvalidTask(
            f"{func.__qualname__} is a generator function: calling it would run none "
            "of it. Return a value, without yield."
        )


def _check_priority(value: object) -> None:
    low, high = limits.PRIORITY_MIN, limits.PRIORITY_MAX
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not low <= value <= high
    ):
        raise InvalidTask(
            f"priority must be a whole number between {low} and {high}. "
            f"It is {brief(value)}."
        )


def _check_queue(name: object, queues: Collection[str]) -> None:
    try:
        queue = clean_queue(name)
    except InvalidJob as error:
        raise InvalidTask(f"queue: {error.message}") from error
    if queues and queue not in queues:
        known = ", ".join(sorted(map(repr, queues)))
        near = get_close_matches(queue, map(str, queues), n=1)
        advice = f" Did you mean {near[0]!r}?" if near else ""
        raise InvalidTask(
            f"Queue '{queue}' is not valid for backend. Its QUEUES are {known}.{advice}"
        )


def _check_run_after(value: object) -> None:
    if isinstance(value, datetime) and settings.USE_TZ and timezone.is_naive(value):
        raise InvalidTask(
            "run_after must be an aware datetime. It has no time zone: give it one "
            "with django.utils.timezone.make_aware()."
        )
    try:
        clean_run_at(value)
    except InvalidJob as error:
        raise InvalidTask(f"run_after: {error.message}") from error
