"""Views that ``ATOMIC_REQUESTS`` leaves alone."""

from collections.abc import Callable
from typing import Any, TypeVar

from django.conf import settings
from django.db import transaction

ViewT = TypeVar("ViewT", bound=Callable[..., Any])


def outside_transactions(view: ViewT) -> ViewT:
    """Keep a view out of transactions on every database.

    A transaction would open a connection before a health check can bound that, and
    a job enqueued in one can have to be enqueued again.
    """
    for alias in settings.DATABASES:
        transaction.non_atomic_requests(using=alias)(view)
    return view
