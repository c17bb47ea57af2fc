"""PostgreSQL's ``postmaster.pid``: what it says, and whether that is still true."""

import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgqueue_django.devserver.paths import Home
from pgqueue_django.devserver.sockets import Socket

_MAX_DIGITS = 10  # of a process id
_PORT_LINE, _SOCKET_LINE = 3, 4
_STATE_LINE = 7  # the last, and the only one that changes


@dataclass(frozen=True, kw_only=True)
class Postmaster:
    """A server's entry in its pid file."""

    pid: int
    socket: Socket | None
    is_ready: bool
    identity: tuple[bytes, ...]


def read(home: Home) -> Postmaster | None:
    """Return what the pid file says; None when it is absent, unreadable or damaged."""
    try:
        return parse(home.pid_file.read_bytes())
    except OSError:
        return None


def parse(content: bytes) -> Postmaster | None:
    """Read the lines: pid, data, start time, port, socket's directory, …, state."""
    lines = [line.strip() for line in content.split(b"\n")]
    if not lines[0].isdigit() or len(lines[0]) > _MAX_DIGITS:
        return None
    return Postmaster(
        pid=int(lines[0]),
        socket=_socket(lines),
        is_ready=lines[_STATE_LINE : _STATE_LINE + 1] == [b"ready"],
        identity=tuple(lines[:_STATE_LINE]),
    )


def _socket(lines: list[bytes]) -> Socket | None:
    match lines[_PORT_LINE : _SOCKET_LINE + 1]:
        case [port, directory] if port.isdigit() and directory:
            return Socket(directory=Path(os.fsdecode(directory)), port=int(port))
    return None


def serving_pid(home: Home) -> int | None:
    """Return the process that the file names, if it is a PostgreSQL at work here.

    In doubt it counts as one: that costs a refusal, and the other way round two servers
    on one directory.
    """
    postmaster = read(home)
    if postmaster and _is_postgres(postmaster.pid) and _works_in(postmaster.pid, home):
        return postmaster.pid
    return None


def remove_stale(home: Home) -> None:
    """Remove what a killed server left, which could name any other process by now.

    Concurrency: The caller holds the home's lock and has seen no serving process.
    PostgreSQL then still looks for processes attached to the old shared memory.
    """
    home.pid_file.unlink(missing_ok=True)


def _is_postgres(pid: int) -> bool:
    if Path("/proc/self/comm").exists():
        with suppress(OSError):
            return Path(f"/proc/{pid}/comm").read_bytes().strip() == b"postgres"
        return False
    command = ["/bin/ps", "-p", str(pid), "-o", "comm="]  # macOS, the BSDs
    done = subprocess.run(command, check=False, capture_output=True)
    return b"postgres" in done.stdout


def _works_in(pid: int, home: Home) -> bool:
    """Compare working directories; a server's is always its data directory."""
    try:
        return Path(f"/proc/{pid}/cwd").samefile(home.data)
    except PermissionError:
        return True
    except FileNotFoundError:  # a zombie, or a system without /proc
        return not Path("/proc/self").exists()
