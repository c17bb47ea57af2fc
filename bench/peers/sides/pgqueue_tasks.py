"""The jobs, as tasks of this package."""

from bench.peers import handlers
from pgqueue_django import task


@task
def warm() -> None:
    handlers.warm()


@task
def noop() -> None:
    handlers.noop()


@task
def stamp(number: int) -> None:
    handlers.stamp(number)
