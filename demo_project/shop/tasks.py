"""The shop's tasks: functions that workers run.

A job runs at least once: its worker may die when the work is done and nobody knows of
it yet. So a handler first looks whether there is anything left to do.
"""

import logging
import random
from collections.abc import Sequence
from typing import Any

from django.db.models.functions import Now

from demo_project.shop.models import Order
from pgqueue_django import Backoff, Cancel, JobContext, Snooze, task

logger = logging.getLogger(__name__)

BUSY_SHARE = 0.25  # of all attempts to send an e-mail


class MailServerBusy(Exception):
    """Goes away by itself."""


class NoSuchAddress(Exception):
    """Stays."""


@task(
    name="shop.confirm_order",
    queue="mail",
    max_attempts=8,
    backoff=Backoff(base=1, cap=60),
    on_exception={NoSuchAddress: "give_up"},
)
def confirm_order(order_id: int) -> str:
    """Confirm an order by e-mail; what fails now and then is tried again."""
    order = Order.objects.filter(pk=order_id).first()
    if order is None:
        raise Cancel("the order was deleted")
    if order.confirmed_at:
        return "was confirmed before"
    send(order.customer, f"Your {order.item} is on its way")
    Order.objects.filter(pk=order_id).update(confirmed_at=Now())
    return f"e-mail sent to {order.customer}"


def send(address: str, subject: str) -> None:
    """Pretend to; a real shop calls django.core.mail here."""
    if address.endswith(".invalid"):
        raise NoSuchAddress(f"550 no such address: {address}")
    if random.random() < BUSY_SHARE:
        raise MailServerBusy("451 the mail server is busy")
    logger.info("e-mail to %s: %s", address, subject)


@task(name="shop.report", queue="reports", takes_context=True)
def report(context: JobContext, items: Sequence[str]) -> dict[str, int]:
    """Count the orders of each item, slowly, but stop when the worker has to go."""
    sold = {}
    for item in items:
        if context.should_stop.wait(2):
            raise Snooze(0)
        sold[item] = Order.objects.filter(item=item).count()
    return sold


@task(name="echo")
def echo(**payload: Any) -> dict[str, Any]:
    """Give back what a producer sends, by HTTP for example."""
    return payload
