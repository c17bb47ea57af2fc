"""procrastinate; a producer in sync code uses its sync connector."""

import atexit
from functools import cache

from procrastinate import App, PsycopgConnector

from bench.peers import handlers

_CHUNK = 1_000

app = App(connector=PsycopgConnector())


@app.task(name="warm")
async def warm() -> None:
    handlers.warm()


@app.task(name="noop")
async def noop() -> None:
    handlers.noop()


@app.task(name="stamp")
async def stamp(number: int) -> None:
    handlers.stamp(number)


@cache
def _producer() -> App:
    app.open()
    # Its pool's threads would keep the process waiting.
    atexit.register(app.close)
    return app


def set_up() -> None:
    _producer().schema_manager.apply_schema()


def fill(name: str, count: int) -> None:
    task = _producer().configure_task(name)
    for begin in range(0, count, _CHUNK):
        task.batch_defer(*[{} for _ in range(min(_CHUNK, count - begin))])


def enqueue(number: int) -> None:
    _producer().configure_task("stamp").defer(number=number)
