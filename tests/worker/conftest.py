"""Workers to test: in threads of this process, and as processes of their own."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, connections

from bench.proxy import Proxy, proxied
from pgqueue_django import devserver, enqueue, signals
from pgqueue_django.attempts import Attempt
from pgqueue_django.models import Job
from pgqueue_django.outcomes import Outcome
from pgqueue_django.worker import Worker
from tests import factories
from tests.devserver.conftest import make_place
from tests.threads import Started
from tests.waiting import wait_until
from tests.worker import handlers

ROOT = Path(__file__).resolve().parent.parent.parent

# Short polls, so that they take no time; a lease that ends on no busy machine, but by
# the tests that are about it.
FAST: dict[str, Any] = {
    "threads": 2,
    "lease": 10.0,
    "poll_interval": 0.05,
    "shutdown_timeout": 10.0,
}

WAIT = 20.0
"""Seconds: far longer than anything takes on a busy machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Empty only the job table after a test, which takes a tenth of the time."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        if Path(__file__).parent in item.path.parents and "transactional_db" in names:
            item.add_marker(
                pytest.mark.django_db(
                    transaction=True, available_apps=["pgqueue_django"]
                )
            )


@pytest.fixture(autouse=True)
def fast_settings(settings: Any) -> None:
    """Reap often."""
    settings.PGQUEUE = {"REAP_INTERVAL_SECONDS": 0.1}


@pytest.fixture(autouse=True)
def fresh_gates() -> Iterator[None]:
    """Open all gates after a test, so that no handler waits on."""
    handlers.gates.clear()
    handlers.calls.clear()
    yield
    for gate in list(handlers.gates.values()):
        gate.opened.set()


# --- in this process ------------------------------------------------------------------


class RunningWorker:
    """A worker in a thread."""

    def __init__(self, queues: Any = "default", **options: Any) -> None:
        self.worker = Worker(queues, **(FAST | options))
        self._thread = Started(self.worker.run)
        self.asked = False

    @property
    def identity(self) -> str:
        """Return the worker's identity."""
        return self.worker.identity

    def ended(self) -> bool:
        """Tell whether ``run()`` has returned."""
        return self._thread.done()

    def stop(self) -> int:
        """Stop it; return its exit code."""
        self.worker.stop()
        return self.result()

    def result(self) -> int:
        """Wait for its end; return its exit code, or raise what it raised."""
        self.asked = True
        return self._thread.result()


@pytest.fixture
def start_worker(transactional_db: None) -> Iterator[Callable[..., RunningWorker]]:
    """Return a function that starts a worker, which is stopped after the test."""
    started: list[RunningWorker] = []

    def start(queues: Any = "default", **options: Any) -> RunningWorker:
        started.append(RunningWorker(queues, **options))
        return started[-1]

    yield start
    for gate in list(handlers.gates.values()):
        gate.opened.set()
    for running in started:
        running.worker.stop()
    for running in started:
        if not running.asked:
            running.result()


@pytest.fixture
def drain(start_worker: Callable[..., RunningWorker]) -> Callable[..., int]:
    """Return a function that runs a worker until nothing is due; gives its code."""

    def run(queues: Any = "default", **options: Any) -> int:
        return start_worker(queues, drain=True, **options).result()

    return run


# --- other processes ------------------------------------------------------------------


class WorkerProcess:
    """``manage.py pgqueue_worker`` in a process, and a process group, of its own."""

    def __init__(
        self, folder: Path, *flags: str, prefix: Sequence[str], **environment: str
    ) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "manage.py", "pgqueue_worker", *flags],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._reader = Thread(target=self._read, name="test reader", daemon=True)
        self._reader.start()
        self.folder = folder

    @property
    def pid(self) -> int:
        """Return the process's id."""
        return self.process.pid

    @property
    def log(self) -> str:
        """Return what it has written to stderr."""
        return "".join(self.lines)

    def wait_for(self, text: str, timeout: float = WAIT) -> None:
        """Wait until its log has a text."""
        wait_until(lambda: text in self.log or self._ended_without(text), timeout)

    def signal(self, *numbers: int) -> None:
        """Send signals, one after the other."""
        for number in numbers:
            self.process.send_signal(number)

    def signal_group(self, number: int) -> None:
        """Send a signal to the whole group."""
        os.killpg(self.pid, number)

    def ended(self) -> bool:
        """Tell whether it has ended."""
        return self.process.poll() is not None

    def wait(self, timeout: float = WAIT) -> int:
        """Wait for its end; return its exit code."""
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        return code

    def stop(self) -> int:
        """Ask it to end; return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """End it whatever it does."""
        if not self.ended():
            self.process.kill()
        self.wait()
        if self.process.stderr:
            self.process.stderr.close()

    def _ended_without(self, text: str) -> bool:
        if self.ended():
            self._reader.join(WAIT)
            assert text in self.log, self.log
        return False

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(iter(self.process.stderr.readline, ""))


def database_environment(**changes: Any) -> dict[str, str]:
    """Return what tells a process of the test database."""
    names = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS")
    database = {name: connection.settings_dict[name] for name in names}
    return {
        "DATABASE_URL": "postgresql:///unused",
        "DJANGO_SETTINGS_MODULE": "tests.worker.process_settings",
        "TEST_DATABASE": json.dumps(database | changes),
    }


@pytest.fixture
def start_process(
    transactional_db: None, tmp_path: Path
) -> Iterator[Callable[..., WorkerProcess]]:
    """Return a function that starts a worker process; all are killed after the test.

    There is no supervisor without ``--processes``: what it gives is the worker itself.
    """
    started: list[WorkerProcess] = []

    def start(
        *flags: str,
        until: str | None = "serves",
        alone: bool = True,
        pgqueue: dict[str, Any] | None = None,
        python_path: str = "",
        prefix: Sequence[str] = (),
        **database: Any,
    ) -> WorkerProcess:
        fast = ["--lease=10", "--poll-interval=0.05", "--threads=2"]
        if alone and not any(flag.startswith("--processes") for flag in flags):
            fast.append("--no-supervisor")
        environment = database_environment(**database)
        environment["TEST_PGQUEUE"] = json.dumps(pgqueue or {})
        environment["PYTHONPATH"] = python_path
        started.append(
            WorkerProcess(tmp_path, *fast, *flags, prefix=prefix, **environment)
        )
        if until:
            started[-1].wait_for(until)
        return started[-1]

    yield start
    for process in started:
        process.kill()


@pytest.fixture
def held_by(tmp_path: Path) -> Callable[..., int]:
    """Return a function that waits for a job to be held; gives the holder's pid."""

    def wait(name: str = "job", besides: int = 0) -> int:
        def holders() -> set[int]:
            found = tmp_path.glob(f"{name}.held-by-*[0-9]")
            return {int(path.name.rpartition("-")[2]) for path in found} - {besides}

        return wait_until(holders, WAIT).pop()

    return wait


class Leave:
    """Lets held jobs go on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str = "job") -> None:
        """Let one go on."""
        (self.folder / f"{name}.go").touch()


@pytest.fixture
def let_go(tmp_path: Path) -> Leave:
    """Return a function that lets a held job go on."""
    return Leave(tmp_path)


# --- the database in between ----------------------------------------------------------


@contextmanager
def extra_alias(name: str, settings_dict: dict[str, Any]) -> Iterator[str]:
    """Give the test database another alias, for a while."""
    connections.settings[name] = settings_dict
    try:
        yield name
    finally:
        del connections.settings[name]
        # This thread keeps what it has once asked for.
        with suppress(AttributeError):
            del connections[name]


@pytest.fixture
def proxy(transactional_db: None) -> Iterator[Proxy]:
    """Return a proxy; workers go through it with ``database="proxied"``."""
    with (
        proxied(connection.settings_dict) as (made, settings_dict),
        extra_alias("proxied", settings_dict),
    ):
        yield made


@pytest.fixture
def alias(transactional_db: None) -> Iterator[Callable[..., str]]:
    """Return a function that makes an alias of the test database, set up otherwise."""
    with ExitStack() as stack:

        def make(name: str, **changes: Any) -> str:
            settings_dict = {**connection.settings_dict, **changes}
            return stack.enter_context(extra_alias(name, settings_dict))

        yield make


@pytest.fixture
def private_server() -> Iterator[Callable[[str], str]]:
    """Return a function that starts and stops a server of this test alone."""
    place = make_place()
    orders = {"start": devserver.ensure_running, "stop": devserver.stop}
    yield lambda order: str(orders[order](place / "home"))
    devserver.stop(place / "home")
    shutil.rmtree(place)


@pytest.fixture
def terminate(
    connect: Callable[..., Any], transactional_db: None
) -> Callable[..., int]:
    """Return a function that ends backends by their application's name."""
    other = connect()

    def end(prefix: str) -> int:
        return len(
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND starts_with(application_name, %s)",
                [prefix],
            ).fetchall()
        )

    return end


# --- what happened --------------------------------------------------------------------


class Heard:
    """What was sent by the product's signals."""

    def __init__(self) -> None:
        self.all: list[tuple[str, dict[str, Any]]] = []

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return the arguments of each signal of that name."""
        return [arguments for heard, arguments in self.all if heard == name]

    def recorded(self) -> list[tuple[Attempt, Outcome]]:
        """Return the outcomes of which it was said that the database has them."""
        batches = [said["recorded"] for said in self.of("attempts_recorded")]
        return [entry for batch in batches for entry in batch]

    def count(self, name: str) -> int:
        """Return how many signals of that name there were."""
        return len(self.of(name))


@pytest.fixture
def heard() -> Iterator[Heard]:
    """Return what all signals of the product say during the test."""
    heard = Heard()
    names = [name for name in vars(signals) if name.islower() and name[0] != "_"]
    with ExitStack() as stack:
        for name in names:
            each = getattr(signals, name)
            if not hasattr(each, "connect"):
                continue

            def receive(*, name: str = name, **arguments: Any) -> None:
                arguments.pop("signal")
                heard.all.append((name, arguments))

            each.connect(receive, weak=False)
            stack.callback(each.disconnect, receive)
        yield heard


def unclaimed_attempt(**values: Any) -> Attempt:
    """Return an attempt that no database knows of."""
    described: dict[str, Any] = {
        "queue": "default",
        "id": 1,
        "token": str(uuid4()),
        "task": "tests.task",
        "args": "[]",
        "kwargs": "{}",
        "number": 1,
        "max_attempts": 2,
        "timeout_seconds": None,
        "priority": 0,
        "run_at": "2026-01-01 00:00:00+00",
    }
    return Attempt(**(described | values))


def add(task: Any, *args: Any, options: Any = None, **kwargs: Any) -> int:
    """Enqueue a job; return its id."""
    return int(enqueue(task, args, kwargs, **(options or {})).id)


def finished(id_: int, timeout: float = WAIT) -> Any:
    """Wait until a job is in a final state; return it."""
    final = ("succeeded", "dead", "cancelled")
    return in_state(id_, *final, timeout=timeout)


def in_state(id_: int, *states: str, timeout: float = WAIT) -> Any:
    """Wait until a job is in one of these states; return it."""

    def found() -> Job | None:
        job = factories.get(id_)
        return job if job.state in states else None

    return wait_until(found, timeout)


def pause(seconds: float) -> None:
    """Let time pass, where a test is about what does not happen in it."""
    Event().wait(seconds)


def within(seconds: float) -> Callable[[], bool]:
    """Return a function that tells whether so many seconds have not passed yet."""
    until = monotonic() + seconds
    return lambda: monotonic() < until
