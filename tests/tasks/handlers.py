"""Tasks that the tests of this package declare, enqueue and look up."""

from datetime import timedelta

from pgqueue_django import Backoff, JobContext, task


@task
def noop(*args, **kwargs):
    return None


@task()
def add(first: int, second: int = 0) -> int:
    return first + second


@task
async def add_async(first: int, second: int = 0) -> int:
    return first + second


@task(takes_context=True)
def tell_attempt(context: JobContext, expected: int = 1) -> bool:
    return context.attempt == expected


@task(
    name="stable.name",
    queue="mail",
    priority=7,
    max_attempts=3,
    backoff=Backoff(base=10, factor=2, cap=60, jitter=0),
    on_exception={
        ConnectionError: timedelta(minutes=1),
        OSError: "retry",
        LookupError: "give_up",
        KeyError: 5,
    },
    timeout=timedelta(seconds=90),
)
def with_every_option() -> None:
    return None


@task(backoff=lambda attempt: attempt * 3)
def with_own_backoff() -> None:
    return None


def plain(first=0, second=0):
    return first + second


def other_plain():
    return None


def generator():
    yield 1


def wants_context(context):
    return context.attempt


class Holder:
    def method(self):
        return None

    @staticmethod
    def static():
        return None


def make_nested():
    def nested():
        return None

    return nested


a_lambda = lambda: None  # noqa: E731 - what the test is about
