"""What the fault programs share: options, a fleet of workers, and the report.

A program is ``main(name, run, options)``. ``run`` gets a Lab, in a database of its own,
and works inside ``trial(lab)``.
"""

import json
import os
import random
import signal
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import cycle
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, Final

import psycopg

from bench import ledger
from bench.benchmark import RESULTS
from bench.clocks import shifted
from bench.host import host
from bench.judging import Books, Verdict, judge
from bench.projects import set_up
from pgqueue_django.bench.connecting import Connection, connect
from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.processes import Crew
from pgqueue_django.bench.reports import Report
from pgqueue_django.bench.sites import DEFAULT
from pgqueue_django.specs import JobSpec

TICK: Final = 0.02
"""Seconds between two looks."""

# How long a run may stand still, and how long the server may be away (seconds).
_STALLED: Final = 120.0
_PATIENCE: Final = 90.0

# Options that say something of this machine, and nothing of the run.
_PATHS: Final = frozenset({"log", "home"})

_LEFT: Final = (
    "SELECT count(*), count(*) FILTER (WHERE state = 'running') FROM pgqueue_job"
    " WHERE finished_at IS NULL"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultReport(Report):
    """A verdict, and what else a program has seen.

    Args:
        verdict: The ledger's.
        figures: More of the program's own, by name; ``recovery_seconds`` among them.
        failed: What the program itself holds against the run, told to a person.
    """

    verdict: Verdict
    figures: Mapping[str, Any] = field(default_factory=dict)
    failed: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the ledger and the program are content."""
        return self.verdict.ok and not self.failed

    def as_json(self) -> dict[str, Any]:
        """Return the one object that ``--json`` prints."""
        return {
            "bench": self.bench,
            **self.verdict.as_json(),
            "recovery_seconds": None,
            **self.figures,
            "failed": list(self.failed),
            "ok": self.ok,
            "options": dict(self.options),
            "environment": dict(self.environment),
        }


# --- the program ----------------------------------------------------------------------


def parser(doc: str, **defaults: Any) -> ArgumentParser:
    """Return a parser with the common options, and one for each given default."""
    made = ArgumentParser(description=doc.partition("\n")[0])
    made.add_argument("--seed", type=int, default=1, help="Of all that is random.")
    made.add_argument("--json", action="store_true", help="Print one JSON object.")
    made.add_argument("--save", action="store_true", help="Store it in results/.")
    made.add_argument("--log", default="", help="Keep what workers print in this file.")
    for name, default in defaults.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(default, bool):
            made.add_argument(flag, action="store_true")
        else:
            made.add_argument(flag, type=type(default), default=default)
    return made


def main(name: str, target: str, given: Namespace) -> None:
    """Run a program in a database of its own; exit with 1 when it is not ok.

    Args:
        name: Of the report.
        target: ``"module:function"``, which takes a Lab and returns a FaultReport.
        given: The parsed options.
    """
    set_up()
    from django.db import router

    from pgqueue_django.bench.lab import run
    from pgqueue_django.models import Job

    options = {k: v for k, v in vars(given).items() if k not in {"json", "save"}}
    try:
        report = run(name, target, router.db_for_write(Job), options)
    except BenchError as error:
        sys.exit(str(error))
    report = replace(
        report, options={k: v for k, v in options.items() if k not in _PATHS}
    )
    text = json.dumps(report.as_json(), indent=2, default=str) + "\n"
    if given.save:
        (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")
    print(text if given.json else "\n".join(_lines(report.as_json())))
    sys.exit(0 if report.as_json()["ok"] else 1)


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    for name, value in report.items():
        if name not in {"options", "environment"}:
            yield f"{name:<24} {value}"


# --- the run --------------------------------------------------------------------------


class Server:
    """Statements on a connection that is opened again while the server is away."""

    def __init__(self, alias: str = DEFAULT) -> None:
        self._alias = alias
        self._connection: Connection | None = None

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows; wait for the server if need be.

        Raises:
            psycopg.Error: The server was away for too long, or refuses the statement.
        """
        deadline = monotonic() + _PATIENCE
        while True:
            try:
                return self.opened().execute(statement.encode(), values).fetchall()
            except (psycopg.OperationalError, psycopg.InterfaceError):
                self.close()
                if monotonic() > deadline:
                    raise
            Event().wait(TICK)

    def now(self) -> datetime:
        """Return the server's time."""
        at: datetime = self.ask("SELECT clock_timestamp()")[0][0]
        return at

    def opened(self) -> Connection:
        """Return the connection, open."""
        if self._connection is None:
            self._connection = connect(self._alias)
        return self._connection

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


class Fleet:
    """Worker programs of one host or more."""

    def __init__(self, hosts: Sequence[Crew]) -> None:
        self._hosts = hosts
        self._turns = cycle(hosts)
        self.alive: list[int] = []
        self.started = 0
        """How many there have been."""
        self.codes: dict[int, int] = {}
        """Exit codes of those that have ended."""

    def start(self, *flags: str) -> int:
        """Start ``pgqueue_worker``, by turns at each host.

        Returns:
            Its pid, by which harm is done to it: the worker's own, or where there are
            ``--processes`` that of their supervisor.
        """
        many = any(flag.startswith("--processes") for flag in flags)
        alone = [] if many else ["--no-supervisor"]
        pid: int = next(self._turns).ask([*flags, *alone])[0]
        self.alive.append(pid)
        self.started += 1
        return pid

    def keep(self, number: int, *flags: str) -> None:
        """Start as many as are missing."""
        self.look()
        while len(self.alive) < number:
            self.start(*flags)

    def look(self) -> None:
        """Note who has ended."""
        ended: dict[int, int] = {}
        for each in self._hosts:
            ended.update(each.ask(None)[0])
        self.codes.update(ended)
        self.alive = [pid for pid in self.alive if pid not in ended]

    def stop(self, timeout: float = 60.0) -> None:
        """Ask all to end, and wait.

        Raises:
            BenchError: One did not end in time (seconds).
        """
        for pid in self.alive:
            os.kill(pid, signal.SIGTERM)
        deadline = monotonic() + timeout
        while self.alive:
            if monotonic() > deadline:
                raise BenchError(f"workers {self.alive} do not end on SIGTERM")
            Event().wait(TICK)
            self.look()


class Trial:
    """One run: its server, its workers, its random numbers."""

    def __init__(self, lab: Lab, fleet: Fleet, log: Path) -> None:
        self.lab = lab
        self.fleet = fleet
        self.server = Server()
        self.random = random.Random(lab["seed"])
        self.acknowledged: list[int] = []
        self.started = monotonic()
        self.log_path = log

    def enqueue(self, task: str, kwargs: list[dict[str, Any]], **values: Any) -> None:
        """Enqueue a job of a task for each set of arguments, in one transaction."""
        from pgqueue_django.models import Job

        specs = [JobSpec.build(task=task, kwargs=each, **values) for each in kwargs]
        self.acknowledged += Job.objects.enqueue_many(specs)

    def enqueue_work(self, jobs: int, low: float = 10, high: float = 50) -> None:
        """Enqueue jobs that take from ``low`` to ``high`` milliseconds."""
        from bench.fault_tasks import WORK

        kwargs = [{"ms": self.random.uniform(low, high)} for _ in range(jobs)]
        # Faults come thick: a job may be interrupted far more often than in life.
        self.enqueue(WORK, kwargs, max_attempts=50)

    def left(self) -> int:
        """Return how many jobs have not finished."""
        return int(self.server.ask(_LEFT)[0][0])

    def wait(self, meanwhile: Callable[[], object], until_left: int = 0) -> None:
        """Call a function again and again until only so many jobs are left.

        Raises:
            BenchError: For two minutes none finished.
        """
        fewest, moved = self.left(), monotonic()
        while fewest > until_left:
            meanwhile()
            Event().wait(TICK)
            if (left := self.left()) < fewest:
                fewest, moved = left, monotonic()
            elif monotonic() - moved > _STALLED:
                raise BenchError(f"{left} jobs do not finish:\n{self.log_tail()}")

    def report(
        self,
        figures: Mapping[str, Any],
        failed: tuple[str, ...] = (),
        **judging: Any,
    ) -> FaultReport:
        """Judge the run, and report."""
        verdict = judge(self.server.opened(), acknowledged=self.acknowledged, **judging)
        shared = {
            "wall_seconds": round(monotonic() - self.started, 2),
            "log_lines": len(self.log_tail(None).splitlines()),
        }
        return FaultReport(
            bench="",
            measured={},
            verdict=verdict,
            figures={**figures, **shared},
            failed=failed,
        )

    def books(self) -> Books:
        """Read the books; nothing may run any more."""
        return Books.read(self.server.opened())

    def log_tail(self, chars: int | None = 4_000) -> str:
        """Return the end of what the workers have printed, or all of it."""
        text = (
            self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
        )
        return text if chars is None else text[-chars:]


@contextmanager
def trial(
    lab: Lab, *, clocks: Sequence[float] = (0.0,), **settings: Any
) -> Iterator[Trial]:
    """Open the books and start hosts; end all workers after the block.

    Args:
        lab: Where.
        clocks: A host for each; by so much its workers' clocks are off (seconds).
        **settings: Of the workers, beside those of the project.
    """
    with (
        tempfile.TemporaryDirectory(prefix="pgqueue-bench-") as folder,
        ExitStack() as stack,
    ):
        log = lab["log"] or f"{folder}/log"
        hosts = []
        for clock in clocks:
            with shifted(clock):
                hosts.append(stack.enter_context(host(lab, log, **settings)))
                # It answers when it has read what its clock is.
                hosts[-1].ask(None)
        made = Trial(lab, Fleet(hosts), Path(log))
        ledger.open_books(made.server.opened())
        try:
            yield made
        finally:
            made.server.close()


def send(pids: Iterable[int], number: signal.Signals) -> list[int]:
    """Send a signal; return those that there were, and that may be signalled."""
    sent = []
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
            sent.append(pid)
    return sent
