"""Celery, with Redis as its broker."""

import os

from celery import Celery

from bench.peers import handlers

app = Celery("bench", broker=os.environ["PEER_REDIS"])
app.conf.update(
    task_ignore_result=True,
    # Its guide's advice for many short tasks.
    worker_prefetch_multiplier=64,
    broker_connection_retry_on_startup=True,
)


@app.task(name="warm")
def warm() -> None:
    handlers.warm()


@app.task(name="noop")
def noop() -> None:
    handlers.noop()


@app.task(name="stamp")
def stamp(number: int) -> None:
    handlers.stamp(number)


def set_up() -> None:
    """Have nothing to set up: queues are made as they are used."""


def fill(name: str, count: int) -> None:
    wanted = {"warm": warm, "noop": noop}[name]
    with app.producer_or_acquire() as producer:
        for _ in range(count):
            wanted.apply_async(producer=producer)


def enqueue(number: int) -> None:
    stamp.delay(number)
