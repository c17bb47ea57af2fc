"""Async tasks that the worker's tests run."""

import asyncio
import os
import threading
from contextvars import ContextVar
from pathlib import Path
from time import sleep
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection, transaction

from pgqueue_django import JobContext, task
from tests.worker.handlers import PATIENCE, calls, gates, touch

# asyncio itself keeps no task.
outliving: list[asyncio.Task[None]] = []

seen: ContextVar[str] = ContextVar("seen", default="nothing")


class Meeting:
    """Where async handlers wait until so many are there at once."""

    def __init__(self) -> None:
        self.expected = 0
        self.present = 0
        self.most = 0

    def reset(self, expected: int) -> None:
        """Expect so many from now on."""
        self.expected, self.present, self.most = expected, 0, 0


meeting = Meeting()


@task
async def nothing() -> None:
    return None


@task
async def nap(seconds: float) -> int:
    await asyncio.sleep(seconds)
    return os.getpid()


@task
async def meet() -> str:
    """Wait until all are there; only those that run at the same time ever are."""
    meeting.present += 1
    meeting.most = max(meeting.most, meeting.present)
    async with asyncio.timeout(PATIENCE):
        while meeting.most < meeting.expected:  # noqa: ASYNC110 - it is a test
            await asyncio.sleep(0.01)
    meeting.present -= 1
    return threading.current_thread().name


@task
async def hold_for_ever(gate: str) -> None:
    gates[gate].arrived.set()
    try:
        await asyncio.Event().wait()
    finally:
        gates[gate].left.set()


@task(timeout=0.3, max_attempts=1)
async def swallow_the_timeout() -> str:
    try:
        await asyncio.sleep(PATIENCE)
    except asyncio.CancelledError:
        return "well"
    return "never"


@task(timeout=0.3, max_attempts=1)
async def fail_when_cancelled() -> None:
    try:
        await asyncio.sleep(PATIENCE)
    finally:
        raise ValueError("of the clean-up")


@task
async def never_cancelled(folder: str) -> str:
    """Go on whatever comes, until told."""
    touch(Path(folder, f"job.held-by-{os.getpid()}"))
    while not Path(folder, "job.go").exists():  # noqa: ASYNC240 - a test
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue
    return "at last"


@task
async def block(seconds: float) -> None:
    sleep(seconds)  # noqa: ASYNC251 - the mistake


@task
async def cancel_itself() -> None:
    task = asyncio.current_task()
    assert task
    task.cancel()
    await asyncio.sleep(0)


@task(max_attempts=1)
async def exit_in_a_task() -> str:
    async def leave() -> None:
        raise SystemExit(3)

    made = asyncio.create_task(leave())
    try:
        await made
    except SystemExit:
        return "caught"
    return "never"


@task(takes_context=True)
async def wait_for_stop(context: JobContext, gate: str) -> str:
    gates[gate].arrived.set()
    if await context.should_stop.wait_async(PATIENCE):
        gates[gate].told_to_stop.set()
    return "stopped early"


# --- contexts -------------------------------------------------------------------------


@task
async def look_and_leave(word: str) -> str:
    found = seen.get()
    seen.set(word)
    await asyncio.sleep(0)
    return found


# --- the database ---------------------------------------------------------------------


def _backend() -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_backend_pid(), current_setting('statement_timeout'),"
            " pg_current_xact_id_if_assigned()::text"
        )
        (row,) = cursor.fetchall()
    return [*row, threading.current_thread().name, connection.in_atomic_block]


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@task
async def backend(times: int = 1) -> list[Any]:
    return [await sync_to_async(_backend)() for _ in range(times)]


@task
async def backend_and_wait(gate: str) -> list[Any]:
    found = await sync_to_async(_backend)()
    while not gates[gate].opened.is_set():  # noqa: ASYNC110 - it is a test
        await asyncio.sleep(0.01)
    return found


@task
async def fail_in_sql() -> None:
    await sync_to_async(_execute)("SELECT no_such_column")


@task
async def wait_in_sync(gate: str) -> None:
    def wait() -> None:
        gates[gate].arrived.set()
        assert gates[gate].opened.wait(PATIENCE)

    await sync_to_async(wait)()


@task
async def call_after_the_end(gate: str) -> None:
    async def outlive() -> None:
        await asyncio.sleep(0.1)
        try:
            await sync_to_async(_backend)()
        except RuntimeError as error:
            calls.append(str(error))
        gates[gate].left.set()

    outliving.append(asyncio.create_task(outlive()))


@task
async def change_session() -> list[Any]:
    await sync_to_async(_execute)("SET statement_timeout = '12s'")
    return await sync_to_async(_backend)()


@task
async def over_two_calls(other: str) -> list[Any]:
    """Keep a transaction open from one call to another."""
    block = transaction.atomic()
    await sync_to_async(block.__enter__)()
    await sync_to_async(_execute)("SELECT pg_current_xact_id()")
    first = await sync_to_async(_backend)()
    gates[other].arrived.set()
    await asyncio.sleep(0.05)
    second = await sync_to_async(_backend)()
    await sync_to_async(block.__exit__)(None, None, None)
    return [first, second]


@task
async def leave_open_at_once() -> None:
    await sync_to_async(transaction.atomic().__enter__)()


@task
async def leave_open() -> str:
    await sync_to_async(transaction.atomic().__enter__)()
    await sync_to_async(_execute)("UPDATE pgqueue_job SET priority = 99")
    return "left open"


@task(takes_context=True)
async def sync_calls_at_once(context: JobContext) -> int:
    """Return how many of its calls ran at the same time at most."""
    lock, running, most = threading.Lock(), 0, 0

    def call() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        context.should_stop.wait(0.02)
        with lock:
            running -= 1

    await asyncio.gather(*(sync_to_async(call)() for _ in range(5)))
    return most
