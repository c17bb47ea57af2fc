"""Whether anybody hears a signal of the task framework; most are sent to nobody."""

import logging
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
    return has_receivers(signal) or is_logged(level)


def is_logged(level: int) -> bool:
    """Tell whether the framework's own receivers would write a line of this level."""
    return is_written(_LOGGER, level)


def is_written(logger: logging.Logger, level: int) -> bool:
    """Tell whether a line could come to a handler that takes it.

    ``isEnabledFor`` says so too where Django's default ``LOGGING`` makes each line, and
    then throws it away, as DEBUG is off; that takes longer than a short job.
    """
    if not logger.isEnabledFor(level):
        return False
    each: logging.Logger | None = logger
    found = False
    # Plain loops: this is asked for each job, and generators take twice as long.
    while each:
        for handler in each.handlers:
            if _takes(handler, level):
                return True
            found = True
        each = each.parent if each.propagate else None
    last = None if found else logging.lastResort
    return last is not None and _takes(last, level)


def _takes(handler: logging.Handler, level: int) -> bool:
    if handler.level > level:
        return False
    for each in handler.filters:
        if isinstance(each, RequireDebugTrue):
            return settings.DEBUG
    return True
