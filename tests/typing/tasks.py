"""What a type checker must accept, and, where a line is ignored, what it must not.

mypy and pyright run over this, told that an ignored line that has no error is an error
itself. Nothing here is run but by ``test_typing.py``.
"""

from datetime import timedelta
from typing import Any, assert_type

from pgqueue_django import Backoff, JobContext, JobResult, enqueue, task
from pgqueue_django.compat import GenericTaskContext
from pgqueue_django.tasks import QueueTask


@task
def bare(to: str, *, times: int = 1) -> list[str]:
    return [to] * times


@task()
def called(to: str) -> int:
    return len(to)


@task(name="typed.options", queue="mail", priority=1, max_attempts=2, timeout=5)
def with_options(to: str) -> int:
    return len(to)


@task(
    backoff=Backoff(base=1),
    on_exception={ValueError: "give_up", OSError: timedelta(1), KeyError: 2.5},
)
def with_policies(to: str) -> int:
    return len(to)


@task(backoff=lambda attempt: attempt * 2.0)
def with_function(to: str) -> int:
    return len(to)


@task(takes_context=True)
def with_context(context: JobContext, to: str) -> bool:
    return context.is_last_attempt and bool(to)


@task(takes_context=True, queue="mail")
def with_djangos_context(context: GenericTaskContext, to: str) -> bool:
    return context.attempt > len(to)


@task
async def coroutine(to: str) -> int:
    return len(to)


@task(takes_context=True)
async def coroutine_with_context(context: JobContext, to: str) -> int:
    return context.attempt + len(to)


def _plain(to: str) -> int:
    return len(to)


made = task(_plain, name="typed.made")


def accepted() -> None:
    assert_type(bare.enqueue("a", times=2), JobResult[list[str]])
    assert_type(bare.get_result("1").return_value, list[str])
    assert_type(bare.call("a"), list[str])
    assert_type(called.enqueue(to="a").return_value, int)
    assert_type(with_options.using(queue="a", delay=5).enqueue("a").return_value, int)
    assert_type(with_policies.enqueue("a").return_value, int)
    assert_type(with_function.enqueue("a").return_value, int)
    assert_type(with_context.enqueue("a").return_value, bool)
    assert_type(with_djangos_context.enqueue("a").return_value, bool)
    assert_type(coroutine.enqueue("a").return_value, int)
    assert_type(coroutine_with_context.enqueue("a").return_value, int)
    assert_type(made.enqueue("a").return_value, int)
    assert_type(enqueue(called, ["a"], queue="mail").return_value, int)
    assert_type(enqueue("typed.options", ["a"]), JobResult[Any])
    assert_type(bare.enqueue("a").replayed, bool)
    typed: QueueTask[[str], int] = called
    typed.enqueue("a")


async def accepted_in_coroutines() -> None:
    assert_type((await bare.aenqueue("a")).return_value, list[str])
    assert_type((await coroutine.aenqueue("a")).return_value, int)
    assert_type((await coroutine.aget_result("1")).return_value, int)
    assert_type(await coroutine.acall("a"), int)


def refused() -> None:
    bare.enqueue(5)  # type: ignore[arg-type]
    bare.enqueue()  # type: ignore[call-arg]
    bare.spec(5)  # type: ignore[arg-type]
    bare.enqueue("a", 2)  # type: ignore[call-arg]
    bare.enqueue("a", times="2")  # type: ignore[arg-type]
    called.enqueue("a", other=1)  # type: ignore[call-arg]
    with_options.enqueue(5)  # type: ignore[arg-type]
    with_options.using(priority=1).enqueue(5)  # type: ignore[arg-type]
    with_context.enqueue(5)  # type: ignore[arg-type]
    coroutine.enqueue(5)  # type: ignore[arg-type]
    made.enqueue(5)  # type: ignore[arg-type]
    called.call(5)  # type: ignore[arg-type]
    called("a")  # type: ignore[operator]
    text: str = called.get_result("1").return_value  # type: ignore[assignment]
    text += "a"
    called.using(priority="high")  # type: ignore[arg-type]
    called.using(queue=5)  # type: ignore[arg-type]
    called.using(run_at="tomorrow")  # type: ignore[arg-type]
    enqueue(_plain, ["a"])  # type: ignore[call-overload]
    enqueue(called, priorty=1)  # type: ignore[call-overload]
    task(priority="high")  # type: ignore[call-overload]
    task(priorty=1)  # type: ignore[call-overload]
    task(on_exception={ValueError: "giveup"})  # type: ignore[dict-item]
    task(takes_context=True)(_plain)  # type: ignore[arg-type]
