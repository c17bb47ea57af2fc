"""Whether anybody hears a signal of the task framework; most are sent to nobody."""

import logging
from typing import Final

from django.dispatch import Signal

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
    return has_receivers(signal) or _LOGGER.isEnabledFor(level)
