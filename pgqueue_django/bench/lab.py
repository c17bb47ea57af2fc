"""The process that measures: it knows the bench's databases, and nothing else."""

import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing.connection import Connection as Pipe
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Final, NoReturn

from pgqueue_django.bench.connecting import Connection, connect
from pgqueue_django.bench.databases import own_databases
from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.processes import Crew
from pgqueue_django.bench.reports import Report
from pgqueue_django.bench.sites import DEFAULT, Site, of_project

_TERMINATED: Final = 128 + signal.SIGTERM


@dataclass(frozen=True, slots=True)
class Lab:
    """What a bench works with.

    Args:
        site: Settings for the processes that it starts.
        options: Those of the bench, by name, checked.
    """

    site: Site
    options: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """Return an option."""
        return self.options[name]

    @property
    def repeats(self) -> range:
        """The numbers of the repeats."""
        return range(self.options["repeats"])

    @contextmanager
    def connection(self, alias: str = DEFAULT) -> Iterator[Connection]:
        """Open a connection to one of the bench's databases."""
        with connect(alias) as connection:
            yield connection


def run(
    bench: str,
    target: str,
    alias: str,
    options: Mapping[str, Any],
    *,
    databases: int = 1,
) -> Report:
    """Run a bench in a process and in databases of its own.

    Args:
        bench: Its name.
        target: ``"module:function"``; the function takes a Lab and returns a Report.
        alias: The project's alias of the database with the jobs.
        options: Of the bench, by name, checked.
        databases: How many it wants.

    Raises:
        BenchError: It could not be run; processes and databases are gone.

    Concurrency:
        In the main thread SIGTERM ends it as Ctrl-C does.
    """
    with _sigterm_raises(), own_databases(alias, databases) as names:
        site = of_project(alias, names)
        given = {"site": site, "target": target, "options": options}
        with Crew(site, f"{__name__}:main", [given]) as crew:
            kind, answer = crew.hear()[0]
    if kind == "error":
        raise BenchError(answer)
    report: Report = answer
    return replace(report, bench=bench, options=options)


def main(pipe: Pipe, site: Site, target: str, options: Mapping[str, Any]) -> None:
    """Be the lab: migrate, measure, report."""
    signal.signal(signal.SIGTERM, _raise_exit)
    try:
        pipe.send(("report", _measure(Lab(site, options), target)))
    except BenchError as error:
        pipe.send(("error", str(error)))
    except Exception:  # noqa: BLE001 - the command must say it, not this process
        pipe.send(("error", f"the bench has failed\n{traceback.format_exc()}"))


def _measure(lab: Lab, target: str) -> Report:
    from django.core.management import call_command

    from pgqueue_django.bench.environment import environment

    for alias in lab.site.databases:
        call_command("migrate", "pgqueue_django", database=alias, verbosity=0)
    with lab.connection() as connection:
        seen = environment(connection)
    module, _, name = target.partition(":")
    report: Report = getattr(import_module(module), name)(lab)
    return replace(report, environment=seen)


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _raise_exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _raise_exit(_number: int, _frame: FrameType | None) -> NoReturn:
    # Once: a second one must not cut the cleaning-up short.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(_TERMINATED)
