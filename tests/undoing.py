"""Transactions that are rolled back on purpose."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction


@contextmanager
def undone() -> Iterator[None]:
    """Run a block in a transaction, or a savepoint, and roll it back."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
