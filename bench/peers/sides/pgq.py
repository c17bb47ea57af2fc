"""pgqueuer, on asyncpg."""

from functools import cache

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers import handlers
from bench.peers.sides.loops import run

_CHUNK = 1_000
_BATCH = 100


async def _worker() -> PgQueuer:
    pgq = PgQueuer(AsyncpgDriver(await asyncpg.connect()))

    @pgq.entrypoint("warm")
    async def warm(_job: Job) -> None:
        handlers.warm()

    @pgq.entrypoint("noop")
    async def noop(_job: Job) -> None:
        handlers.noop()

    @pgq.entrypoint("stamp")
    async def stamp(job: Job) -> None:
        handlers.stamp(int(job.payload or b""))

    return pgq


async def _work() -> None:
    await (await _worker()).run(batch_size=_BATCH)


@cache
def _queries() -> Queries:
    return Queries(AsyncpgDriver(run(asyncpg.connect())))


def set_up() -> None:
    run(_queries().install())


def fill(name: str, count: int) -> None:
    for begin in range(0, count, _CHUNK):
        n = min(_CHUNK, count - begin)
        run(_queries().enqueue([name] * n, [None] * n, [0] * n))


def enqueue(number: int) -> None:
    run(_queries().enqueue("stamp", str(number).encode()))


if __name__ == "__main__":
    # As its command does. That of 1.6.0 itself fails on the newest typer.
    uvloop.run(_work())
