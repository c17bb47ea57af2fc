"""Starts worker programs by fork, and buries them: what init is to real workers.

A worker takes a second to start when Python has to load everything first, and a run
that kills one every 0.3 s would measure nothing else. The host has it all loaded, and
has neither threads nor connections, so its forks are clean.
"""

import os
import signal
import traceback
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection as Pipe
from typing import Any, NoReturn

from django.core.management import call_command

from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.processes import Crew

_MAIN = "bench.host:main"


def host(lab: Lab, log: str, **settings: Any) -> Crew:
    """Return a host, to be entered as a context.

    Args:
        lab: Where.
        log: The file that gets what the workers print.
        **settings: Other entries in the workers' ``PGQUEUE``.
    """
    tasks = {"TASK_MODULES": ["bench.fault_tasks"]}
    site = lab.site.with_settings(**{**tasks, **settings})
    return Crew(site, _MAIN, [{"log": log}])


def main(pipe: Pipe, log: str) -> None:
    """Start ``pgqueue_worker`` with the flags that are sent; answer with its pid.

    The message None is answered with those that have ended since: their pids, and
    their exit codes, negative for a signal. All are killed when the pipe is gone.
    """
    # Before any fork, and not before Django is set up.
    import_module("pgqueue_django.worker.supervisor")
    alive: set[int] = set()
    try:
        while True:
            flags = pipe.recv()
            if flags is None:
                pipe.send(_ended(alive))
            else:
                alive.add(pid := _fork(flags, log, pipe))
                pipe.send(pid)
    except (EOFError, OSError):
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _ended(alive: set[int]) -> dict[int, int]:
    codes = {}
    for pid in tuple(alive):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            alive.discard(pid)
            codes[pid] = os.waitstatus_to_exitcode(status)
    return codes


def _fork(flags: list[str], log: str, pipe: Pipe) -> int:
    pid = os.fork()
    if pid == 0:
        pipe.close()
        _be_worker(flags, log)
    return pid


def _be_worker(flags: list[str], log: str) -> NoReturn:
    from pgqueue_django.worker.exits import OK, leave

    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for stream in (1, 2):
            os.dup2(file, stream)
        call_command("pgqueue_worker", *flags)
        code = OK
    except Exception:  # noqa: BLE001 - a fork must not go on above
        traceback.print_exc()
    finally:
        leave(code)
