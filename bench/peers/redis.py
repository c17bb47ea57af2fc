"""A Redis server of the bench's own, on a Unix socket, as installed in all else."""

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Final

from bench.peers.children import Children
from bench.peers.errors import PeerError

_READY_WITHIN: Final = 10.0  # seconds

# Where Celery keeps what waits, and what workers have taken and not yet begun.
_LEFT: Final = (b"LLEN celery\r\n", b"HLEN unacked\r\n")


@contextmanager
def redis_server(folder: Path) -> Iterator[Path]:
    """Run a server while the block runs.

    Args:
        folder: An empty one, for its files.

    Yields:
        Its socket.

    Raises:
        PeerError: There is none on this machine, or it does not start.
    """
    program = shutil.which("redis-server")
    if program is None:
        raise PeerError("redis-server is not installed")
    path = folder / "redis.sock"
    listening = ["--port", "0", "--unixsocket", str(path), "--dir", str(folder)]
    command = [program, *listening]
    with Children(command, 1, {}, folder / "redis.log") as server:
        deadline = monotonic() + _READY_WITHIN
        while not _answers(path):
            server.check()
            if monotonic() > deadline:
                raise PeerError("redis-server does not answer")
            Event().wait(0.05)
        yield path


def _answers(path: Path) -> bool:
    try:
        return _integer(path, b"DBSIZE\r\n") >= 0
    except OSError:
        return False


def any_left(path: Path) -> bool:
    """Look whether Celery has jobs that no process has begun."""
    return any(_integer(path, command) for command in _LEFT)


def _integer(path: Path, command: bytes) -> int:
    """Send a command, as one line of text, and return the number it is answered by."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5.0)
        connection.connect(str(path))
        connection.sendall(command)
        return integer(connection.makefile("rb").readline())


def integer(answer: bytes) -> int:
    """Read an integer as Redis writes one.

    Raises:
        OSError: It is something else, such as an error.
    """
    if not answer.startswith(b":"):
        raise OSError(answer.decode(errors="replace"))
    return int(answer[1:])
