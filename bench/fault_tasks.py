"""Handlers of the fault programs: each marks its work in the ledger."""

import ctypes
import os
import re
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Final, NoReturn

from django.db import OperationalError, connection, transaction

from bench import ledger
from pgqueue_django import JobContext, task

WORK: Final = "bench.work"
HOG: Final = "bench.hog"
POISON: Final = "bench.poison"
DEADLY: Final = "bench.deadly"
TWISTED: Final = "bench.twisted"


@task(name=WORK)
def work(ms: float) -> str:
    """Wait, as for somebody else's server; return the attempt's token."""
    with ledger.entered() as token:
        Event().wait(ms / 1_000)
        return token


@task(name=HOG, takes_context=True)
def hog(context: JobContext, how: str, seconds: float) -> str:
    """Hold the interpreter's lock, at the first attempt, for about so long.

    Args:
        context: Of the job.
        how: ``regex`` or ``power``.
        seconds: Until then steps follow one another, each twice as long.
    """
    with ledger.entered() as token:
        until, size = monotonic() + seconds, 18
        while context.attempt == 1 and monotonic() < until:
            _HOGGING[how](size)
            size += 1
        return token


_HOGGING: Final[dict[str, Callable[[int], object]]] = {
    "regex": lambda size: re.match(r"(a+)+$", "a" * size + "b"),
    "power": lambda size: 7 ** (2**size),
}


# --- poison ---------------------------------------------------------------------------


class Unprintable(Exception):
    """Cannot be made into text, in any way."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __repr__(self) -> str:
        return self.__repr__()


@task(name=POISON)
def poison(how: str) -> None:
    """Fail in a way that the worker survives: the job is dead in the end."""
    ledger.mark("began")
    POISONS[how]()
    raise RuntimeError(f"{how} went by {ledger.token()}")


@task(name=TWISTED)
def twisted(how: str) -> str:
    """Spoil the thread's connection, and succeed."""
    with ledger.entered() as token:
        TWISTS[how]()
        return token


@task(name=DEADLY)
def deadly(how: str) -> NoReturn:
    """Take the whole process down."""
    ledger.mark("began")
    DEATHS[how]()
    raise AssertionError("still here")


def _exhaust_memory() -> None:
    # Untouched pages cost the machine nothing; the address space ends all the same.
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    size = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 2**29, hard))
    try:
        held = [bytearray(2**26) for _ in range(1_000)]
        raise AssertionError(f"{len(held)} blocks")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _recurse() -> None:
    _recurse()


def _raise(error: BaseException) -> NoReturn:
    raise error


def _set(setting: str) -> Callable[[], object]:
    def execute() -> None:
        with connection.cursor() as cursor:
            cursor.execute(setting)

    return execute


def _close() -> None:
    connection.close()


def _terminate() -> None:
    with suppress(OperationalError):
        _set("SELECT pg_terminate_backend(pg_backend_pid())")()


POISONS: Final[dict[str, Callable[[], object]]] = {
    "exit": lambda: sys.exit(3),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "memory": _exhaust_memory,
    "recursion": _recurse,
    "unprintable": lambda: _raise(Unprintable()),
    "group": lambda: _raise(BaseExceptionGroup("many", [SystemExit(), Unprintable()])),
    "bad SQL": _set("SELECT 1/0"),
}

TWISTS: Final[dict[str, Callable[[], object]]] = {
    "transaction": lambda: transaction.atomic().__enter__(),
    "autocommit off": lambda: connection.set_autocommit(False),
    "begin": _set("BEGIN"),
    "close": _close,
    "backend": _terminate,
    "statement_timeout": _set("SET statement_timeout = '1ms'"),
    "search_path": _set("SET search_path = ''"),
    "read only": _set("SET default_transaction_read_only = on"),
    "listen": _set("LISTEN everything"),
}

DEATHS: Final[dict[str, Callable[[], object]]] = {
    "os._exit": lambda: os._exit(7),
    "segmentation fault": lambda: ctypes.string_at(0),
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "abort": os.abort,
}
