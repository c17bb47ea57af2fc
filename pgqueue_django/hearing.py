"""Whether anybody hears a signal of the task framework; most are sent to nobody."""

import logging
from collections.abc import Iterator
from typing import Final

from django.conf import settings
from django.dispatch import Signal
from django.utils.log import RequireDebugTrue

from pgqueue_django.compat import Task

# The framework's own receivers: one a signal, which writes a log line.
_LOGGER: Final = logging.getLogger(Task.__module__.rpartition(".")[0])
_OWN_RECEIVERS: Final = 1


def has_receivers(signal: Signal) -> bool:
    """Tell whether anybody but the log would hear of it."""
    return len(signal.receivers) > _OWN_RECEIVERS


def is_heard(signal: Signal, level: int) -> bool:
    """Tell whether anybody would hear of it, the log included.

    Args:
        signal: Of the task framework.
        level: At which the framework logs it.
    """
    return has_receivers(signal) or is_written(_LOGGER, level)


def is_written(logger: logging.Logger, level: int) -> bool:
    """Tell whether a line could come to a handler that takes it.

    ``isEnabledFor`` says so too where Django's default ``LOGGING`` makes each line, and
    then throws it away, as DEBUG is off; that takes longer than a short job.
    """
    if not logger.isEnabledFor(level):
        return False
    handlers = list(_handlers_of(logger))
    if not handlers and logging.lastResort:
        handlers = [logging.lastResort]
    return any(_takes(handler, level) for handler in handlers)


def _handlers_of(logger: logging.Logger) -> Iterator[logging.Handler]:
    each: logging.Logger | None = logger
    while each:
        yield from each.handlers
        each = each.parent if each.propagate else None


def _takes(handler: logging.Handler, level: int) -> bool:
    if handler.level > level:
        return False
    return settings.DEBUG or not any(
        isinstance(each, RequireDebugTrue) for each in handler.filters
    )
