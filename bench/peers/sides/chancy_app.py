"""chancy, with its executor for async jobs."""

from chancy import Chancy, Queue, job
from chancy.job import Job

from bench.peers import handlers
from bench.peers.sides.loops import run

chancy = Chancy("postgresql://")

_QUEUE = Queue(name="default", executor=Chancy.Executor.Async, eager_polling=True)


@job(queue="default")
async def warm() -> None:
    handlers.warm()


@job(queue="default")
async def noop() -> None:
    handlers.noop()


@job(queue="default")
async def stamp(*, number: int) -> None:
    handlers.stamp(number)


async def _install() -> None:
    async with Chancy("postgresql://") as app:
        await app.migrate()
        await app.declare(_QUEUE)


def set_up() -> None:
    run(_install())


def fill(name: str, count: int) -> None:
    wanted: Job = {"warm": warm, "noop": noop}[name].job
    for _references in chancy.sync_push_many([wanted] * count):
        pass


def enqueue(number: int) -> None:
    chancy.sync_push(stamp.job.with_kwargs(number=number))
