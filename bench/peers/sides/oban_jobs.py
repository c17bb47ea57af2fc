"""Oban for Python."""

from functools import cache

from oban import Oban, job
from oban.schema import install
from psycopg_pool import AsyncConnectionPool

from bench.peers import handlers
from bench.peers.sides.loops import run

_CHUNK = 1_000


@job()
async def warm() -> None:
    handlers.warm()


@job()
async def noop() -> None:
    handlers.noop()


@job()
async def stamp(number: int) -> None:
    handlers.stamp(number)


async def _opened() -> AsyncConnectionPool:
    pool = AsyncConnectionPool("", min_size=1, max_size=2, open=False)
    await pool.open(wait=True)
    return pool


@cache
def _pool() -> AsyncConnectionPool:
    return run(_opened())


@cache
def _client() -> Oban:
    return Oban(pool=_pool())


def set_up() -> None:
    run(install(_pool()))


def fill(name: str, count: int) -> None:
    made = {"warm": warm, "noop": noop}[name]
    for begin in range(0, count, _CHUNK):
        jobs = [made.new() for _ in range(min(_CHUNK, count - begin))]
        run(_client().enqueue_many(jobs))


def enqueue(number: int) -> None:
    run(_client().enqueue(stamp.new(number)))
