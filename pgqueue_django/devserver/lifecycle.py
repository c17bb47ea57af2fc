"""Start and stop the server of a home."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pgqueue_django.devserver import (
    clusters,
    locks,
    paths,
    pidfile,
    placement,
    probes,
    sockets,
)
from pgqueue_django.devserver.accounts import Account
from pgqueue_django.devserver.deadlines import Deadline
from pgqueue_django.devserver.errors import DevServerError, UnansweredError
from pgqueue_django.devserver.paths import Home

_PROBE_SECONDS = 5.0  # for one try; a busy server is asked again


def ensure_running(data_dir: Path | str | None = None, *, timeout: float = 60) -> str:
    """Start the server of a data directory unless it runs, and return its URL.

    The server is a daemon: it stays when this process ends, and when the terminal gets
    Ctrl-C. On the first start initdb makes it: UTF-8, with the locale C.UTF-8 whatever
    the environment says, 200 connections, and a database ``pgqueue``.

    Args:
        data_dir: Made if absent. None: the environment variable
            ``PGQUEUE_DEVSERVER_DIR``, else the directory that settings.py gave to
            ``database_url``, else ``./.pgdata``.
        timeout: Seconds, at most, for all of it; more than 0.

    Returns:
        A URL for dj-database-url, psycopg and libpq, with the socket's directory as its
        percent-encoded host and ``pgqueue`` as its database.

    Raises:
        DevServerError: It is not installed, cannot be made or started, or a server owns
            the directory and does not answer in time. Such a server is left alone.

    Concurrency: Any number of processes and threads; one of them starts the server, and
    the others wait for it.
    """
    deadline = Deadline(timeout)
    with _clear_errors():
        home, account = placement.prepare(data_dir)
        return _Start(home, account, deadline).url()


class _Start:
    """One call of ``ensure_running``."""

    def __init__(self, home: Home, account: Account, deadline: Deadline) -> None:
        self.home = home
        self.account = account
        self.deadline = deadline
        self.launched: clusters.Launch | None = None

    def url(self) -> str:
        while True:
            self._launch_if_free()
            try:
                return self._answering_url()
            except UnansweredError as error:
                self._wait_after(error)

    def _launch_if_free(self) -> None:
        with locks.try_to_own(self.home.lock) as lock:
            if lock is None or pidfile.serving_pid(self.home):
                return
            if self.launched:  # and it is gone again
                raise clusters.explain_failure(self.home, self.launched)
            self.launched = clusters.launch(
                self.home, self.account, lock=lock, timeout=self.deadline.remaining()
            )

    def _answering_url(self) -> str:
        """Return the URL of a server that answers and has the database."""
        timeout = min(self.deadline.remaining(), _PROBE_SECONDS)
        answer = probes.ask(self.home, timeout=timeout)
        if not answer.has_database:
            probes.create_database(answer, timeout=timeout)
        return answer.url

    def _wait_after(self, error: UnansweredError) -> None:
        if self.deadline.has_passed():
            raise DevServerError(
                f"a server owns {self.home.root} but gave no answer in "
                f"{self.deadline.seconds:g} s (log: {self.home.log}): {error}"
            ) from None
        self.deadline.pause()


def stop(data_dir: Path | str | None = None, *, timeout: float = 60) -> bool:
    """Stop the server of a data directory; sessions are cut off, nothing is lost.

    Args:
        data_dir: As for ``ensure_running``.
        timeout: Seconds, at most, until all of its processes are gone; more than 0.

    Returns:
        True when a server was stopped, False when none ran.

    Raises:
        DevServerError: It may not be signalled, or does not end in time.
    """
    home = paths.find(data_dir)
    deadline = Deadline(timeout)
    with _clear_errors():
        if not is_running(home):
            return False
        postmaster = pidfile.read(home)
        asked: int | None = None
        while not _is_over(home, asked):
            asked = asked or _ask_to_shut_down(home)
            _wait_for_end(home, deadline)
        if postmaster and postmaster.socket:
            _tidy(home, postmaster.socket.directory)
        return True


def is_running(home: Home) -> bool:
    """Tell whether a server owns the home, also one that somebody else started."""
    return locks.is_owned(home.lock) or pidfile.serving_pid(home) is not None


def _is_over(home: Home, asked: int | None) -> bool:
    """Tell whether the server is gone; a successor that others started may stay."""
    if not is_running(home):
        return True
    return asked is not None and pidfile.serving_pid(home) not in {None, asked}


def _ask_to_shut_down(home: Home) -> int | None:
    pid = pidfile.serving_pid(home)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)  # PostgreSQL's "fast shutdown"
    return pid


def _wait_for_end(home: Home, deadline: Deadline) -> None:
    if deadline.has_passed():
        pid = pidfile.serving_pid(home) or f"unknown, as {home.pid_file} is damaged"
        raise DevServerError(
            f"the server of {home.root} did not end in {deadline.seconds:g} s "
            f"(pid {pid}; log {home.log})"
        )
    deadline.pause()


def _tidy(home: Home, socket_dir: Path) -> None:
    """Remove the socket's directory, unless the next server is on its way."""
    with locks.try_to_own(home.lock) as lock:
        if lock is not None:
            sockets.remove_directory(socket_dir)


@contextmanager
def _clear_errors() -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise DevServerError(
            f"{error}: the server's files belong to another account; run as the user "
            "who started it, or as root"
        ) from error
    except OSError as error:
        raise DevServerError(str(error)) from error
