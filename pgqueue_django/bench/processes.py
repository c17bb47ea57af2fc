"""Child processes of a bench: spawned, talked to over pipes, and gone at its end."""

import os
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import SpawnProcess
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self

from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.sites import Site

# Spawned: a forked child would have its parent's settings and connections.
SPAWN = get_context("spawn")

# How long children may take to end by themselves, and to answer (seconds).
_PATIENCE = 5.0
_ANSWER = 1_800.0


def enter(site: Site, target: str, pipe: Pipe, given: Mapping[str, Any]) -> None:
    """Be a child: set Django up, and call a function with the pipe.

    Args:
        site: Settings of this process.
        target: ``"module:function"``, imported once Django is set up.
        pipe: To the parent. The function returns when it ends.
        given: Keyword arguments of the function.
    """
    # Ctrl-C reaches the whole terminal; the command alone acts on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    site.configure()
    module, _, name = target.partition(":")
    getattr(import_module(module), name)(pipe, **given)


def end_with(pipe: Pipe, patience: float = _PATIENCE) -> None:
    """Block until the other end of a pipe is gone; then end this process soon."""
    with suppress(EOFError, OSError):
        while True:
            pipe.recv()
    Thread(target=_end_anyway, args=(patience,), daemon=True).start()


def _end_anyway(patience: float) -> None:
    Event().wait(patience)
    os._exit(1)


class Crew:
    """Processes that do the same.

    Args:
        site: Their settings.
        target: ``"module:function"``, called with a pipe and what is given.
        given: The keyword arguments of each: one process for each entry.
    """

    def __init__(
        self, site: Site, target: str, given: Iterable[Mapping[str, Any]]
    ) -> None:
        self._site = site
        self._target = target
        self._given = list(given)
        self._members: list[tuple[SpawnProcess, Pipe]] = []

    def __enter__(self) -> Self:
        try:
            for given in self._given:
                self._members.append(self._start(given))
        except BaseException:
            self._end(hurried=True)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(hurried=error is not None)

    def _start(self, given: Mapping[str, Any]) -> tuple[SpawnProcess, Pipe]:
        ours, theirs = SPAWN.Pipe()
        process = SPAWN.Process(
            target=enter, args=(self._site, self._target, theirs, given)
        )
        process.start()
        theirs.close()
        return process, ours

    @property
    def pids(self) -> list[int]:
        """The processes' numbers."""
        return [process.pid for process, _ in self._members if process.pid]

    def check(self) -> None:
        """Look whether all are there.

        Raises:
            BenchError: One has ended.
        """
        for process, _ in self._members:
            if not process.is_alive():
                raise BenchError(
                    f"a process of the bench ({self._target}) ended by itself with "
                    f"exit code {process.exitcode}"
                )

    def tell(self, message: object) -> None:
        """Send a message to each."""
        for _, pipe in self._members:
            try:
                pipe.send(message)
            except OSError:
                self.check()
                raise

    def hear(self) -> list[Any]:
        """Receive one message from each, in the order of the processes.

        Raises:
            BenchError: One has ended, or says nothing for half an hour.
        """
        return [self._hear(process, pipe) for process, pipe in self._members]

    def ask(self, message: object) -> list[Any]:
        """Send a message to each, and receive an answer from each."""
        self.tell(message)
        return self.hear()

    def _hear(self, process: SpawnProcess, pipe: Pipe) -> Any:
        try:
            if pipe.poll(_ANSWER):
                return pipe.recv()
        except EOFError:
            process.join(_PATIENCE)
            self.check()
        raise BenchError(f"a process of the bench ({self._target}) does not answer")

    def _end(self, *, hurried: bool) -> None:
        # A child whose pipe is gone ends by itself.
        for _, pipe in self._members:
            pipe.close()
        gently = [] if hurried else [_let]
        for end in (*gently, SpawnProcess.terminate, SpawnProcess.kill):
            for process, _ in self._members:
                end(process)
            deadline = monotonic() + _PATIENCE
            for process, _ in self._members:
                process.join(max(0.0, deadline - monotonic()))
        self._members.clear()


def _let(process: SpawnProcess) -> None:
    """Do nothing: it is about to end."""
    del process
