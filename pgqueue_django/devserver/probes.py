"""Ask a server who it is: an answer from another one's socket is no answer.

psql does it: it can be killed when the time is up, wherever it waits.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pgqueue_django.devserver import binaries, locks, pidfile, processes, sockets
from pgqueue_django.devserver.errors import UnansweredError
from pgqueue_django.devserver.paths import Home
from pgqueue_django.devserver.sockets import Socket

_SEPARATOR = "\x1f"
# The server reads the file in its own directory, whatever that is called by now.
_QUESTION = """
SELECT encode(pg_read_binary_file('postmaster.pid'), 'hex'),
       current_setting('server_version'),
       EXISTS (SELECT FROM pg_database WHERE datname = 'pgqueue'),
       current_setting('data_directory')
"""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the server that owns a home says."""

    pid: int
    socket: Socket
    version: str
    has_database: bool

    @property
    def url(self) -> str:
        """The URL of the database for users."""
        return self.socket.url()


def ask(home: Home, *, timeout: float) -> Answer:
    """Connect to the server of a home and check that it is the one.

    Args:
        home: Where the server's pid file is.
        timeout: Seconds, at most.

    Raises:
        UnansweredError: There is none, or it does not answer, or is another's.
    """
    postmaster = pidfile.read(home)
    if postmaster is None:
        raise UnansweredError(
            f"{home.pid_file} is absent, unreadable or damaged; make it readable, or "
            "give PostgreSQL a minute to notice and end"
        )
    if not postmaster.is_ready or postmaster.socket is None:
        raise UnansweredError(f"the server (pid {postmaster.pid}) is not ready")
    said = query(postmaster.socket, _QUESTION, timeout=timeout)
    content, version, has_database, data_directory = said.split(_SEPARATOR, 3)
    theirs = pidfile.parse(bytes.fromhex(content))
    if theirs is None or theirs.identity != postmaster.identity:
        raise UnansweredError(f"another server is in {postmaster.socket.directory}")
    if not locks.is_owned(home.lock) and not _is_same(data_directory, home):
        raise UnansweredError(f"the server's data is elsewhere, in {data_directory}")
    return Answer(
        pid=postmaster.pid,
        socket=postmaster.socket,
        version=version,
        has_database=has_database == "t",
    )


def _is_same(data_directory: str, home: Home) -> bool:
    """Compare places. An owned home's server may have been moved along with it."""
    directory = Path(data_directory)
    return directory.exists() and directory.samefile(home.data)


def query(socket: Socket, sql: str, *, timeout: float) -> str:
    """Run one statement on the maintenance database.

    Raises:
        UnansweredError: With what psql said.
    """
    url = socket.url(database="postgres")
    options = ["-X", "-A", "-t", "-q", "-w", "-F", _SEPARATOR, "-v", "ON_ERROR_STOP=1"]
    command = [binaries.installed() / "psql", *options, "-d", url, "-c", sql]
    try:
        done = processes.run(command, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise UnansweredError(
            f"no answer in {socket.directory} for {timeout:.0f} s"
        ) from None
    if done.returncode != 0:
        raise UnansweredError(done.stderr.decode(errors="replace").strip())
    return os.fsdecode(done.stdout).removesuffix("\n")


def create_database(answer: Answer, *, timeout: float) -> None:
    """Create the database that URLs name.

    Raises:
        UnansweredError: Also when another process is about to create it; ask again.
    """
    sql = f"CREATE DATABASE {sockets.DATABASE}"
    query(answer.socket, sql, timeout=timeout)
