"""Which of the backends in ``settings.TASKS`` are this queue's."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from django.utils.module_loading import import_string

from pgqueue_django.compat import BaseTaskBackend, task_backends

IMPLICIT_ALIAS: Final = "pgqueue"
"""Alias of the backend that needs no entry in ``settings.TASKS``."""

_BACKEND: Final = "pgqueue_django.backends.PgQueueBackend"


def default_alias() -> str:
    """Return the alias of the first PgQueueBackend in ``settings.TASKS``."""
    for alias, params in task_backends.settings.items():
        if is_ours(params):
            return str(alias)
    return IMPLICIT_ALIAS


def backend_class() -> type[BaseTaskBackend]:
    """Return PgQueueBackend.

    By its path, since imports go downwards only, and the backend imports tasks.
    """
    found: type[BaseTaskBackend] = import_string(_BACKEND)
    return found


@cache
def implicit_backend() -> BaseTaskBackend:
    """Return the backend that takes jobs where ``settings.TASKS`` names none."""
    return backend_class()(alias=IMPLICIT_ALIAS, params={"QUEUES": []})


def is_ours(params: Mapping[str, Any]) -> bool:
    """Tell whether an entry of ``settings.TASKS`` is a PgQueueBackend."""
    path = str(params.get("BACKEND", ""))
    if path == _BACKEND:
        return True
    try:
        found = import_string(path)
    except Exception:  # noqa: BLE001 - somebody else's backend; its users will hear
        return False
    return isinstance(found, type) and issubclass(found, backend_class())
