"""Handlers that keep Python's global interpreter lock, or do not want to end."""

import asyncio
import os
import re
from pathlib import Path
from time import monotonic, sleep

from pgqueue_django import task
from pgqueue_django.exceptions import AttemptTimedOut
from tests.worker.handlers import PATIENCE, gates, touch


@task(max_attempts=5, on_exception={AttemptTimedOut: "give_up"})
def match_catastrophically(folder: str) -> None:
    """Keep the lock in one call, so that no other thread runs."""
    touch(Path(folder, f"job.held-by-{os.getpid()}"))
    re.match("(a+)+$", "a" * 50 + "!")


@task
def raise_to_a_huge_power(folder: str) -> None:
    """Do the same in another part of C code."""
    touch(Path(folder, f"job.held-by-{os.getpid()}"))
    pow(7, 7**12)


# --- that a cancel interrupts ---------------------------------------------------------

seen: list[BaseException] = []
"""What handlers of this process ended by."""


def _over(gate: str, until: float) -> bool:
    return gates[gate].opened.is_set() or monotonic() > until


@task(cancel="interrupt")
def go_on(gate: str) -> None:
    gates[gate].arrived.set()
    until = monotonic() + PATIENCE
    try:
        while not _over(gate, until):
            sleep(0.01)
    except BaseException as error:
        seen.append(error)
        raise
    finally:
        gates[gate].left.set()


@task(cancel="interrupt")
async def go_on_async(gate: str) -> None:
    gates[gate].arrived.set()
    until = monotonic() + PATIENCE
    try:
        while not _over(gate, until):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    except BaseException as error:
        seen.append(error)
        raise
    finally:
        gates[gate].left.set()


@task(cancel="interrupt")
def go_on_regardless(folder: str) -> None:
    """Make nothing of being interrupted."""
    touch(Path(folder, f"job.held-by-{os.getpid()}"))
    until = monotonic() + PATIENCE
    while monotonic() < until:
        try:
            sleep(0.01)
        except Exception:  # noqa: BLE001 - the mistake
            continue
