"""What the shop does when somebody orders."""

from django.db import transaction

from demo_project.shop.models import Order
from demo_project.shop.tasks import confirm_order
from pgqueue_django import JobResult


def place(order: Order) -> JobResult[str]:
    """Store an order and its job: both are there after the commit, or neither."""
    with transaction.atomic():
        order.save()
        return confirm_order.enqueue(order.pk)
