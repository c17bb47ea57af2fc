"""The tasks of a shop, whose tests are in test_shop.py."""

from collections.abc import Sequence

from django.contrib.auth.models import Group
from django.db import transaction

from pgqueue_django import JobContext, Snooze, task

sent: list[tuple[str, list[int]]] = []
"""The mails that left: to whom, and about which orders."""


class MailServerBusy(Exception):
    """The first attempts of a test's mail meet it."""


@task(queue="mail", max_attempts=3)
def send_mail(to: str, orders: Sequence[int]) -> str:
    sent.append((to, list(orders)))
    return f"sent to {to}"


@task(takes_context=True, max_attempts=3)
def send_at_last(context: JobContext, to: str) -> int:
    if not context.is_last_attempt:
        raise MailServerBusy
    sent.append((to, []))
    return context.attempt


@task
def place_order(to: str, number: int) -> None:
    with transaction.atomic(durable=True):
        Group.objects.create(name=f"order {number}")
        transaction.on_commit(lambda: send_mail.enqueue(to, [number]))


@task(max_attempts=1)
def place_twice(number: int) -> None:
    Group.objects.create(name=f"order {number}")
    Group.objects.create(name=f"order {number}")


@task
def wait_for_stock() -> None:
    raise Snooze(60)


@task
def again_and_again() -> None:
    again_and_again.enqueue()


@task(timeout=0.05, max_attempts=1)
def count_for_ever() -> None:
    while True:
        pass


@task
async def look_up(number: int) -> int:
    return number
