"""A primary and its synchronous standby, of the embedded server's own programs."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from urllib.parse import quote, urlsplit

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


class Pair:
    """Two servers on Unix sockets of this machine.

    Args:
        folder: That the servers' account can enter.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._primary = folder / "primary"
        self._standby = folder / "standby"
        self._urls: list[str] = []

    @property
    def url(self) -> str:
        """The URL that names both, and means the one that can be written to."""
        hosts = [urlsplit(url).netloc.rpartition("@")[2] for url in self._urls]
        names = ",".join(host.rpartition(":")[0] for host in hosts)
        ports = quote(",".join(host.rpartition(":")[2] for host in hosts), safe="")
        return (
            f"postgresql://postgres@/pgqueue?host={names.replace(',', '%2C')}"
            f"&port={ports}&target_session_attrs=read-write"
        )

    def start(self) -> None:
        """Start both; return when every commit waits for the standby.

        Raises:
            BenchError: The copy cannot be made.
        """
        primary = devserver.ensure_running(self._primary)
        self._copy(primary)
        self._urls = [primary, devserver.ensure_running(self._standby)]
        with psycopg.connect(primary, autocommit=True) as connection:
            # Not before the copy, or the standby would want one of its own.
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            while connection.execute(_IS_SYNCHRONOUS).fetchall() != [(1,)]:
                Event().wait(_TICK)

    def _copy(self, primary: str) -> None:
        home, account = placement.prepare(self._standby)
        home.partial.mkdir(mode=0o700)
        account.give(home.partial)
        program = binaries.usable_by(account) / "pg_basebackup"
        source = primary.rpartition("/")[0] + "/postgres"
        command = [program, "-D", home.partial, "-R", "-c", "fast", "-d", source]
        done = processes.run(command, account=account, timeout=_PATIENCE)
        if done.returncode != 0:
            raise BenchError(done.stderr.decode(errors="replace"))
        home.partial.rename(home.data)

    def kill_primary(self) -> None:
        """Kill its postmaster; return when all of its processes are gone."""
        home = paths.find(self._primary)
        pid = pidfile.serving_pid(home)
        if pid is None:
            raise BenchError("there is no primary to be killed")
        os.kill(pid, signal.SIGKILL)
        while lifecycle.is_running(home):
            Event().wait(_TICK)

    def promote(self) -> None:
        """Make the standby the primary; return when it takes writes."""
        home, account = placement.prepare(self._standby)
        program = binaries.usable_by(account) / "pg_ctl"
        command = [program, "promote", "-w", "-D", home.data]
        done = processes.run(command, account=account, timeout=_PATIENCE)
        if done.returncode != 0:
            raise BenchError(done.stderr.decode(errors="replace"))

    def stop(self) -> None:
        """Stop what runs: the standby first, for which commits wait."""
        devserver.stop(self._standby)
        devserver.stop(self._primary)


@contextmanager
def pair() -> Iterator[Pair]:
    """Start a pair in a folder of its own, and remove it."""
    folder = Path(tempfile.mkdtemp(prefix="pgqueue-pair-"))
    folder.chmod(0o755)
    made = Pair(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)
