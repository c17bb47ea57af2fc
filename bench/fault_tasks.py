"""Handlers of the fault programs: each marks its work in the ledger."""

from threading import Event

from bench import ledger
from pgqueue_django import task


@task(name="bench.work")
def work(ms: float) -> str:
    """Wait, as for somebody else's server; return the attempt's token."""
    with ledger.entered() as token:
        Event().wait(ms / 1_000)
        return token
