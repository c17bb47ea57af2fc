"""Tasks that the worker's tests run, in this process and in others.

Those that wait do so for a gate: an event here, a file between processes.
"""

import asyncio
import ctypes
import os
import subprocess
import sys
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction

from pgqueue_django import Cancel, JobContext, Retry, Snooze, task
from pgqueue_django.models import Job

# Seconds: no test waits for so long, but nothing hangs for ever either.
PATIENCE = 30.0


@dataclass
class Gate:
    """Where a handler of this process reports, and waits."""

    arrived: Event = field(default_factory=Event)
    opened: Event = field(default_factory=Event)
    told_to_stop: Event = field(default_factory=Event)
    left: Event = field(default_factory=Event)


gates: dict[str, Gate] = defaultdict(Gate)
calls: list[Any] = []


def at_once(_attempt: int) -> float:
    """Back off not at all."""
    return 0.0


# --- that end well --------------------------------------------------------------------


@task
def noop(*args: Any, **kwargs: Any) -> None:
    return None


@task
def echo(*args: Any, **kwargs: Any) -> Any:
    calls.append(args[0] if args else None)
    return [list(args), kwargs]


@task
async def echo_async(*args: Any, **kwargs: Any) -> Any:
    await asyncio.sleep(0)
    return [list(args), kwargs]


@task
def where() -> list[Any]:
    return [os.getpid(), threading.current_thread().name]


@task(takes_context=True)
def describe_context(context: JobContext, word: str) -> Any:
    return [
        word,
        context.attempt,
        context.max_attempts,
        context.job_id,
        context.task_result.id,
        context.is_last_attempt,
        context.should_stop.is_set(),
    ]


@task(takes_context=True)
async def describe_context_async(context: JobContext) -> Any:
    return [context.attempt, context.job_id]


@task
def wait_at(gate: str) -> str:
    gates[gate].arrived.set()
    assert gates[gate].opened.wait(PATIENCE)
    gates[gate].left.set()
    return "passed"


@task
async def wait_at_async(gate: str) -> str:
    gates[gate].arrived.set()
    until = monotonic() + PATIENCE
    while not gates[gate].opened.is_set() and monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    gates[gate].left.set()
    return "passed"


@task(takes_context=True)
def wait_for_stop(context: JobContext, gate: str) -> str:
    gates[gate].arrived.set()
    assert context.should_stop.wait(PATIENCE)
    gates[gate].told_to_stop.set()
    return "stopped early"


# --- across processes -----------------------------------------------------------------


def touch(path: Path, text: str = "") -> None:
    """Write a file that a reader finds whole or not at all."""
    new = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.new")
    new.write_text(text)
    new.rename(path)


@task(max_attempts=5)
def hold(folder: str, name: str = "job") -> str:
    """Say who runs it, and wait for leave to go on."""
    touch(Path(folder, f"{name}.held-by-{os.getpid()}"))
    until = monotonic() + PATIENCE
    while not Path(folder, f"{name}.go").exists() and monotonic() < until:
        sleep(0.01)
    return f"done by {os.getpid()}"


@task
async def hold_async(folder: str, name: str = "job") -> str:
    touch(Path(folder, f"{name}.held-by-{os.getpid()}"))
    until = monotonic() + PATIENCE
    go = Path(folder, f"{name}.go").exists
    while not go() and monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return f"done by {os.getpid()}"


@task
def stuck(folder: str) -> None:
    """Sit in one C call that nothing in Python can end."""
    touch(Path(folder, f"job.held-by-{os.getpid()}"))
    ctypes.CDLL(None).sleep(int(PATIENCE))


@task
async def stuck_async(folder: str) -> None:
    """Block the event loop, which is a mistake that people make."""
    touch(Path(folder, f"job.held-by-{os.getpid()}"))
    sleep(PATIENCE)  # noqa: ASYNC251 - the mistake


@task
def hold_with_subprocess(folder: str) -> int:
    """Run a program while it waits."""
    program = f"import pathlib, time\nwhile not pathlib.Path({folder!r}, 'job.go')"
    program += ".exists(): time.sleep(0.01)"
    child = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    touch(Path(folder, f"job.held-by-{os.getpid()}"))
    return child.wait(PATIENCE)


# --- that end badly -------------------------------------------------------------------


class AwkwardInit(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


class BadStr(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text today")


class EndlessRepr(Exception):
    def __repr__(self) -> str:
        return repr(self)

    __str__ = __repr__


def _recurse(depth: int = 0) -> int:
    return _recurse(depth + 1) + 1


def _chained() -> None:
    error: Exception = ValueError("the first")
    for number in range(200):
        following = ValueError(f"number {number}")
        following.__cause__ = error
        error = following
    raise error


def _make_error(kind: str) -> BaseException:
    def socket_holder() -> BaseException:
        import socket

        left, right = socket.socketpair()
        right.close()
        left.close()
        return OSError("holds", left)

    makers: dict[str, Any] = {
        "ValueError": lambda: ValueError("wrong"),
        "CancelledError": lambda: asyncio.CancelledError("cancelled"),
        "SystemExit(0)": lambda: SystemExit(0),
        "SystemExit(3)": lambda: SystemExit(3),
        "KeyboardInterrupt": KeyboardInterrupt,
        "GeneratorExit": GeneratorExit,
        "MemoryError": MemoryError,
        "StopIteration": StopIteration,
        "BaseExceptionGroup": lambda: BaseExceptionGroup(
            "several", [KeyboardInterrupt(), SystemExit(1)]
        ),
        "ExceptionGroup": lambda: ExceptionGroup("several", [ValueError("x")] * 3),
        "AwkwardInit": lambda: AwkwardInit("a", "b"),
        "BadStr": BadStr,
        "EndlessRepr": EndlessRepr,
        "huge": lambda: ValueError("ż" * 15_000_000),
        "socket": socket_holder,
    }
    error: BaseException = makers[kind]()
    return error


def _raise(kind: str) -> None:
    if kind == "RecursionError":
        _recurse()
    if kind == "chain of 200":
        _chained()
    raise _make_error(kind)


@task(max_attempts=2, backoff=at_once)
def fail(kind: str = "ValueError") -> None:
    _raise(kind)


@task(max_attempts=2, backoff=at_once)
async def fail_async(kind: str = "ValueError") -> None:
    await asyncio.sleep(0)
    _raise(kind)


@task(max_attempts=3, backoff=lambda attempt: 600.0 * attempt)
def fail_and_wait() -> None:
    raise ValueError("wrong")


@task(max_attempts=30, backoff=at_once)
def fail_hugely() -> None:
    raise ValueError("ż" * 1_000_000)


@task(max_attempts=3, backoff=at_once, takes_context=True)
def fail_until_last(context: JobContext) -> str:
    if not context.is_last_attempt:
        raise ValueError("not yet")
    return f"at attempt {context.attempt}"


def _broken_backoff(_attempt: int) -> float:
    raise SystemExit("the backoff itself fails")


@task(max_attempts=2, backoff=_broken_backoff)
def fail_with_broken_backoff() -> None:
    raise ValueError("wrong")


@task(
    max_attempts=5,
    backoff=at_once,
    on_exception={LookupError: "give_up", KeyError: "retry", OSError: 600},
)
def fail_by_policy(kind: str) -> None:
    raise {"LookupError": LookupError, "KeyError": KeyError, "OSError": OSError}[kind]


@task(max_attempts=2)
def ask_for_retry(after: float | None = None) -> None:
    raise Retry(after, "the other side is busy")


@task(takes_context=True, max_attempts=2)
def snooze_once(context: JobContext, gate: str, delay: Any = 0) -> int:
    if not gates[gate].arrived.is_set():
        gates[gate].arrived.set()
        raise Snooze(delay)
    return context.attempt


@task
def snooze() -> None:
    raise Snooze(7)


@task(max_attempts=2)
def snooze_wrongly() -> None:
    raise Snooze(float("nan"))


@task
def cancel_itself() -> None:
    raise Cancel("not wanted any more")


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@task(max_attempts=1)
def return_unstorable(kind: str) -> Any:
    values: dict[str, Any] = {
        "object": object(),
        "nan": float("nan"),
        "nul": "a\0b",
        "surrogate": "\ud800",
        "deep": _nested(5_000),
        "long number": 10**5_000,
        "colliding keys": {1: "a", "1": "b"},
        "large": "x" * 3_000_000,
    }
    return values[kind]


# --- that take long -------------------------------------------------------------------


@task(timeout=0.2, max_attempts=1)
def run_too_long() -> None:
    until = monotonic() + PATIENCE
    while monotonic() < until:
        pass


@task(timeout=0.2, max_attempts=1)
async def run_too_long_async() -> None:
    await asyncio.sleep(PATIENCE)


@task(timeout=0.2, max_attempts=1)
def swallow_the_timeout() -> str:
    until = monotonic() + 0.6
    while monotonic() < until:
        try:
            sleep(0.01)
        except Exception:  # noqa: BLE001 - the mistake
            continue
    return "well"


@task(timeout=0.2, max_attempts=1)
async def own_timeout_error() -> None:
    raise TimeoutError("of something else")


@task(timeout=PATIENCE)
def short_enough() -> str:
    return "in time"


# --- that use the database ------------------------------------------------------------


def _session_state() -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_backend_pid(), current_setting('statement_timeout'),"
            " current_setting('search_path'), current_user::text,"
            " current_setting('transaction_read_only'), current_setting('TimeZone'),"
            " current_setting('application_name')"
        )
        (row,) = cursor.fetchall()
    return [*row, connection.get_autocommit(), connection.in_atomic_block]


@task(max_attempts=1)
def session_state() -> list[Any]:
    return _session_state()


@task(max_attempts=1)
def count_jobs() -> list[int]:
    return [Job.objects.count(), _session_state()[0]]


@task(max_attempts=1)
async def count_jobs_async() -> list[int]:
    return [await Job.objects.acount(), (await sync_to_async(_session_state)())[0]]


@task(max_attempts=1)
def poison(kind: str) -> str:
    """Leave Django's connection of this thread in a bad way."""
    _POISONS[kind]()
    return "poisoned"


def _swallow_error_in_atomic() -> None:
    with transaction.atomic():
        try:
            _execute("SELECT no_such_column")
        except Exception:  # noqa: BLE001 - the mistake
            return


def _turn_autocommit_off() -> None:
    transaction.set_autocommit(False)
    _execute("UPDATE pgqueue_job SET priority = 99 WHERE task LIKE '%.noop'")
    raise ValueError("with an open transaction")


def _enter_atomic() -> None:
    transaction.atomic().__enter__()
    _execute("UPDATE pgqueue_job SET priority = 99 WHERE task LIKE '%.noop'")


def _enter_atomic_and_fail() -> None:
    _enter_atomic()
    _execute("SELECT no_such_column")


def _open_savepoint() -> None:
    transaction.atomic().__enter__()
    _execute("SAVEPOINT of_mine")


def _begin_by_hand() -> None:
    _execute("BEGIN")
    _execute("UPDATE pgqueue_job SET priority = 99 WHERE task LIKE '%.noop'")


def _close_connection() -> None:
    _execute("SELECT 1")
    connection.close()


def _close_all_in_atomic() -> None:
    transaction.atomic().__enter__()
    connection.close()


def _kill_own_backend() -> None:
    _execute("SELECT pg_terminate_backend(pg_backend_pid())")


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


_POISONS: dict[str, Any] = {
    "error swallowed in atomic": _swallow_error_in_atomic,
    "autocommit off": _turn_autocommit_off,
    "atomic never left": _enter_atomic,
    "atomic never left, failed": _enter_atomic_and_fail,
    "savepoint open": _open_savepoint,
    "begin by hand": _begin_by_hand,
    "closed": _close_connection,
    "closed in atomic": _close_all_in_atomic,
    "backend killed": _kill_own_backend,
    "read only": lambda: _execute(
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"
    ),
    "statement_timeout": lambda: _execute("SET statement_timeout = '1ms'"),
    "search_path": lambda: _execute("SET search_path = ''"),
    "role": lambda: _execute("SET ROLE pg_monitor"),
    "listen": lambda: _execute("LISTEN something"),
}


@task
def all_aliases() -> list[int]:
    """Return this process, and the backend of each alias."""
    pids = [os.getpid()]
    for alias in ("default", "other"):
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pids.append(cursor.fetchall()[0][0])
    return pids
