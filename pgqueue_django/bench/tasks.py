"""The handlers that benches run. Only the bench's own processes import them."""

import asyncio
import time
from threading import Event

from pgqueue_django import task
from pgqueue_django.models import Job


@task(name="pgqueue_bench.noop")
def noop() -> None:
    """Do nothing."""


@task(name="pgqueue_bench.sleep")
def sleep(ms: float) -> None:
    """Wait, as for somebody else's server.

    Args:
        ms: Milliseconds.
    """
    Event().wait(ms / 1_000)


@task(name="pgqueue_bench.cpu")
def cpu(ms: float) -> None:
    """Use the processor.

    Args:
        ms: Milliseconds of this thread's own time.
    """
    end = time.thread_time() + ms / 1_000
    while time.thread_time() < end:
        pass


@task(name="pgqueue_bench.orm")
def orm() -> None:
    """Read through Django's ORM twice, on the thread's own connection."""
    newest = Job.objects.filter(pk__lte=1).first()
    Job.objects.filter(pk=newest.pk if newest else 0).exists()


@task(name="pgqueue_bench.async_sleep")
async def async_sleep(ms: float) -> None:
    """Wait in an event loop.

    Args:
        ms: Milliseconds.
    """
    await asyncio.sleep(ms / 1_000)


@task(name="pgqueue_bench.stamp")
def stamp(at: float) -> list[float]:
    """Return when the first line ran.

    The times become the job's result, so that measuring costs no statement.

    Args:
        at: When the job was enqueued, by the machine's monotonic clock (seconds). The
            clock is the same in all processes of a machine.

    Returns:
        Seconds since then; the time by the machine's wall clock (seconds).
    """
    now = time.monotonic()
    return [now - at, time.clock_gettime(time.CLOCK_REALTIME)]
