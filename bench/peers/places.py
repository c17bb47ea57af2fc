"""Where one queue is measured once: an empty database, and a folder."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from django.db import connections

from bench.benchmark import RESULTS
from bench.peers.handlers import STAMPS
from bench.peers.known import Peer
from bench.peers.redis import any_left, redis_server
from pgqueue_django.bench.connecting import Connection, connect
from pgqueue_django.bench.databases import own_databases
from pgqueue_django.bench.sites import DEFAULT

_ROOT: Final = RESULTS.parent

# The project's own; each queue has others.
_NOT_THEIRS: Final = ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "PYTHONPATH")

_LIBPQ: Final = {
    "HOST": "PGHOST",
    "PORT": "PGPORT",
    "USER": "PGUSER",
    "PASSWORD": "PGPASSWORD",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a queue is measured.

    Args:
        folder: For what handlers and programs write.
        environment: Variables of all its processes.
        server: To the database.
        any_left: Whether a job has no outcome yet.
    """

    folder: Path
    environment: dict[str, str]
    server: Connection
    any_left: Callable[[], bool]


@contextmanager
def place(peer: Peer, alias: str) -> Iterator[Place]:
    """Make what a queue needs, and remove it after the block.

    Args:
        peer: The queue.
        alias: The project's, of a database on the server.

    Raises:
        PeerError: The machine lacks something.
        BenchError: The server is not there.
    """
    with ExitStack() as stack:
        enter = stack.enter_context
        folder = Path(enter(TemporaryDirectory(prefix="pgqueue-peers-")))
        name = enter(own_databases(alias, 1))[DEFAULT]
        server = enter(connect(alias, dbname=name))
        given = {**_common(alias, folder), "PGDATABASE": name, **peer.environment}
        if peer.unfinished:
            yield Place(folder, given, server, _asks(server, peer.unfinished))
            return
        broker = enter(redis_server(folder))
        given["PEER_REDIS"] = f"redis+socket://{broker}"
        yield Place(folder, given, server, lambda: any_left(broker))


def _common(alias: str, folder: Path) -> dict[str, str]:
    database = connections.settings[alias]
    inherited = {k: v for k, v in os.environ.items() if k not in _NOT_THEIRS}
    libpq = {name: str(database[k]) for k, name in _LIBPQ.items() if database[k]}
    return {**inherited, "PYTHONPATH": str(_ROOT), STAMPS: str(folder), **libpq}


def _asks(server: Connection, question: str) -> Callable[[], bool]:
    def asked() -> bool:
        row = server.execute(question.encode()).fetchone()
        return bool(row and row[0])

    return asked
