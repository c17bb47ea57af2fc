"""A primary and its synchronous standby, of the embedded server's own programs."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Final
from urllib.parse import urlsplit

import psycopg

from pgqueue_django import devserver
from pgqueue_django.bench.errors import BenchError
from pgqueue_django.devserver import (
    binaries,
    lifecycle,
    paths,
    pidfile,
    placement,
    processes,
)

_TICK = 0.02

# For a copy of an empty server, and for a promotion (seconds).
_PATIENCE = 60.0

_IS_SYNCHRONOUS = (
    "SELECT count(*) FROM pg_stat_replication"
    " WHERE state = 'streaming' AND sync_state = 'sync'"
)

# A standby finds its primary again soon, and all that it has missed (a restarted server
# throws away what it does not need itself).
_OF_A_PAIR = {"wal_retrieve_retry_interval": "100ms", "wal_keep_size": "256MB"}


def started(home: Path, **settings: object) -> str:
    """Start a server with settings that it keeps; return its URL.

    Args:
        home: Made if absent.
        **settings: Of PostgreSQL, beside those of the development server.
    """
    url = devserver.ensure_running(home)
    with psycopg.connect(url, autocommit=True) as connection:
        for name, value in settings.items():
            change = f"ALTER SYSTEM SET {name} = '{value}'"
            connection.execute(change.encode())
    # Some count from the next start on.
    devserver.stop(home)
    return devserver.ensure_running(home)


class Pair:
    """Two servers on Unix sockets of this machine, whose roles may change.

    Args:
        folder: That the servers' account can enter.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._homes = [folder / "one", folder / "other"]

    @property
    def primary(self) -> Path:
        """The home of the server that runs and takes writes.

        Raises:
            BenchError: There is none.
        """
        for home in self._homes:
            if lifecycle.is_running(paths.find(home)) and not _is_standby(home):
                return home
        raise BenchError("there is no primary")

    @property
    def standby(self) -> Path:
        """The home of the server that follows the other."""
        return next(filter(_is_standby, self._homes))

    def start(self, **settings: object) -> str:
        """Start both; return their URL when every commit waits for the standby.

        The URL names both servers, and means the one that can be written to.

        Args:
            **settings: Of PostgreSQL, for both.

        Raises:
            BenchError: The copy cannot be made.
        """
        first, second = self._homes
        urls = [started(first, **{**_OF_A_PAIR, **settings}), self._add_standby(second)]
        hosts = [urlsplit(url).netloc.rpartition("@")[2] for url in urls]
        names = "%2C".join(host.rpartition(":")[0] for host in hosts)
        ports = "%2C".join(host.rpartition(":")[2] for host in hosts)
        return (
            f"postgresql://postgres@/pgqueue?host={names}&port={ports}"
            "&target_session_attrs=read-write"
        )

    def _add_standby(self, standby: Path) -> str:
        """Copy the primary, and start the copy; return the copy's URL."""
        primary = devserver.ensure_running(self.primary)
        _copy(primary, standby)
        url = devserver.ensure_running(standby)
        with psycopg.connect(primary, autocommit=True) as connection:
            # Not before the copy, or the standby would want one of its own.
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
        self.wait_for_standby()
        return url

    def wait_for_standby(self) -> None:
        """Return when the standby has all that the primary has ever acknowledged."""
        url = devserver.ensure_running(self.primary)
        with psycopg.connect(url, autocommit=True) as connection:
            while connection.execute(_IS_SYNCHRONOUS).fetchall() != [(1,)]:
                Event().wait(_TICK)

    def kill_primary(self) -> None:
        """Kill its postmaster; return when all of its processes are gone."""
        home = paths.find(self.primary)
        pid = pidfile.serving_pid(home)
        if pid is None:
            raise BenchError("there is no primary to be killed")
        os.kill(pid, signal.SIGKILL)
        while lifecycle.is_running(home):
            Event().wait(_TICK)

    def promote(self) -> None:
        """Make the standby the primary; return when it takes writes."""
        home, account = placement.prepare(self.standby)
        program = binaries.usable_by(account) / "pg_ctl"
        command = [program, "promote", "-w", "-D", home.data]
        done = processes.run(command, account=account, timeout=_PATIENCE)
        if done.returncode != 0:
            raise BenchError(done.stderr.decode(errors="replace"))

    def rebuild(self) -> None:
        """Make the one that was killed the standby of the one that was promoted."""
        primary = self.primary
        (killed,) = (home for home in self._homes if home != primary)
        _bury(killed)
        shutil.rmtree(paths.find(killed).data)
        self._add_standby(killed)

    def stop(self) -> None:
        """Stop what runs: the standby first, for which commits wait."""
        for home in sorted(self._homes, key=_is_standby, reverse=True):
            devserver.stop(home)
            if paths.find(home).pid_file.exists():
                _bury(home)


def _is_standby(home: Path) -> bool:
    return (paths.find(home).data / "standby.signal").exists()


def _bury(killed: Path) -> None:
    """Remove what a killed server has left in shared memory, and its socket."""
    home, account = placement.prepare(killed)
    found = pidfile.read(home)
    pidfile.remove_stale(home)
    # Without a postmaster it recovers and ends, and lets nobody in meanwhile.
    program = binaries.usable_by(account) / "postgres"
    command = [program, "--single", "-D", home.data, "template1"]
    processes.run(command, account=account, timeout=_PATIENCE)
    if found and found.socket:
        shutil.rmtree(found.socket.directory, ignore_errors=True)


def _copy(url: str, to: Path) -> None:
    home, account = placement.prepare(to)
    home.partial.mkdir(mode=0o700)
    account.give(home.partial)
    program = binaries.usable_by(account) / "pg_basebackup"
    source = url.rpartition("/")[0] + "/postgres"
    command = [program, "-D", home.partial, "-R", "-c", "fast", "-d", source]
    done = processes.run(command, account=account, timeout=_PATIENCE)
    if done.returncode != 0:
        raise BenchError(done.stderr.decode(errors="replace"))
    home.partial.rename(home.data)


FOLDER: Final = "BENCH_PAIR"
"""The variable by which a lab finds the pair that its program has started."""


def of_lab() -> Pair:
    """Return the pair of the program that this lab belongs to."""
    return Pair(Path(os.environ[FOLDER]))


@contextmanager
def pair(**settings: object) -> Iterator[Pair]:
    """Start a pair in a folder of its own, tell labs of it, and remove it.

    Args:
        **settings: Of PostgreSQL, for both.
    """
    folder = Path(tempfile.mkdtemp(prefix="pgqueue-pair-"))
    folder.chmod(0o755)
    made = Pair(folder)
    try:
        os.environ["DATABASE_URL"] = made.start(**settings)
        os.environ[FOLDER] = str(folder)
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)
