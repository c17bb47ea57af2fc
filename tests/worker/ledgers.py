"""Tasks that write to a table of their own, in ``fenced()`` and without it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.db import connection, connections, transaction

from pgqueue_django import JobContext, Retry, task
from tests.waiting import wait_until
from tests.worker.handlers import PATIENCE, at_once, gates

TABLE = "test_ledger"

meanwhile: list[Callable[[], object]] = []
"""What happens while a handler of this process is in its block, one a call."""

raised: list[BaseException] = []
"""What handlers of this process saw."""


def write(context: JobContext, what: str, alias: str = "default") -> None:
    """Write a row that says who did it."""
    with connections[alias].cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {TABLE} VALUES (%s, %s, %s)",
            [context.job_id, context.attempt, what],
        )


def written(id_: int | None = None) -> list[tuple[int, str]]:
    """Return attempt and word of each row, of one job or of all."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT attempt, what FROM {TABLE} WHERE job = coalesce(%s, job)"
            " ORDER BY job, attempt, what",
            [id_],
        )
        return list(cursor.fetchall())


def _happen() -> None:
    if meanwhile:
        meanwhile.pop()()


@task(takes_context=True, backoff=at_once)
def book(context: JobContext, *, fenced: bool = True, late: bool = False) -> Any:
    """Write twice, and let happen what happens: between the two, or after both."""
    if not fenced:
        write(context, "first")
        _happen()
        write(context, "second")
        return "unfenced"
    try:
        with context.fenced() as done:
            write(context, "first")
            if not late:
                _happen()
            write(context, "second")
            done.result = "fenced"
            if late:
                _happen()
    except BaseException as error:
        raised.append(error)
        raise


@task(takes_context=True, max_attempts=5)
def hold_and_book(
    context: JobContext, folder: str, name: str = "job", *, fenced: bool
) -> str:
    """Write, tell who runs it, and wait for leave to go on; write again."""
    if not fenced:
        return _wait_between_writes(context, folder, name)
    with context.fenced(f"done by {os.getpid()}"):
        return _wait_between_writes(context, folder, name)


def _wait_between_writes(context: JobContext, folder: str, name: str) -> str:
    write(context, "first")
    Path(folder, f"{name}.held-by-{os.getpid()}").touch()
    wait_until(Path(folder, f"{name}.go").exists, PATIENCE)
    write(context, "second")
    return f"done by {os.getpid()}"


# --- other shapes ---------------------------------------------------------------------


@task(takes_context=True, backoff=at_once)
def book_then(context: JobContext, then: str) -> Any:
    """Succeed in the block, and go on."""
    with context.fenced("kept"):
        write(context, "in the block")
    if then == "raise":
        raise ValueError("after the block")
    if then == "retry":
        raise Retry(after=0)
    if then == "again":
        context.fenced().__enter__()
    if then == "save":
        context.save_metadata({"a": 1})
    return {"nothing": None, "same": "kept"}.get(then, "not kept")


@task(takes_context=True)
def book_and_linger(context: JobContext, gate: str) -> None:
    with context.fenced("kept"):
        write(context, "in the block")
    gates[gate].arrived.set()
    assert gates[gate].opened.wait(PATIENCE)


@task(takes_context=True, backoff=at_once)
def fail_in_the_block(context: JobContext, how: str) -> Any:
    with context.fenced() as done:
        write(context, how)
        if how == "raise":
            raise ValueError("in the block")
        if how == "result":
            done.result = object()
        if how == "constraint":
            with connection.cursor() as cursor:
                cursor.execute(f"INSERT INTO {TABLE}_once VALUES (1), (1)")


@task(takes_context=True, backoff=at_once)
def swallow(context: JobContext) -> str:
    """Go on as if nothing had happened."""
    try:
        with context.fenced("kept"):
            write(context, "in the block")
            _happen()
    except Exception as error:  # noqa: BLE001
        raised.append(error)
    return "in spite of it"


@task(takes_context=True)
def nest(context: JobContext, where: str) -> None:
    if where == "outside":
        with transaction.atomic(), context.fenced("never"):
            write(context, "never")
        return
    with context.fenced("nested"):
        write(context, "outer")
        try:
            with transaction.atomic():
                write(context, "undone")
                raise ValueError("only the savepoint")
        except ValueError:
            write(context, "after it")


@task(takes_context=True)
async def book_async(context: JobContext, word: str) -> str:
    def block() -> str:
        write(context, word)
        return f"async {word}"

    return await context.afenced(block)


# --- metadata -------------------------------------------------------------------------


@task(takes_context=True, backoff=at_once)
def tell(context: JobContext, first: Any, then: Any = None) -> Any:
    """Save metadata, let happen what happens, save more."""
    found = dict(context.task_result.metadata)
    context.save_metadata(first)
    _happen()
    if then is not None:
        context.save_metadata(then)
    return found


@task(takes_context=True)
async def tell_async(context: JobContext) -> None:
    await context.asave_metadata({"a": 1})
    await context.aprogress(1, 2, "half")
    await context.aextend(60)


@task(takes_context=True)
def tell_in_a_transaction(context: JobContext) -> None:
    with transaction.atomic():
        context.save_metadata({"seen": True})
        context.progress(3)
        _happen()
        transaction.set_rollback(True)


@task(takes_context=True, max_attempts=1)
def call_on(context: JobContext, method: str, *args: Any, **kwargs: Any) -> None:
    _happen()
    getattr(context, method)(*args, **kwargs)
    _happen()
