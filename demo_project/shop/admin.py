"""Orders in the admin: saving a new one places it, and actions enqueue jobs."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from demo_project.shop.models import Order
from demo_project.shop.orders import place
from demo_project.shop.tasks import report


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("id", "item", "customer", "placed_at", "confirmed_at")
    readonly_fields = ("placed_at", "confirmed_at")
    actions = ("place_again", "make_report")

    def save_model(self, request: HttpRequest, obj: Order, *_: Any) -> None:
        if obj.pk:
            obj.save()
        else:
            job = place(obj)
            self.message_user(request, f"Job {job.id} confirms the order.")

    @admin.action(description="Place the same again")
    def place_again(self, request: HttpRequest, queryset: QuerySet[Order]) -> None:
        for order in queryset:
            job = place(Order(customer=order.customer, item=order.item))
            self.message_user(request, f"Job {job.id} confirms {order.item}.")

    @admin.action(description="Make a report of these items (slow)")
    def make_report(self, request: HttpRequest, queryset: QuerySet[Order]) -> None:
        items = sorted({order.item for order in queryset})
        job = report.enqueue(items=items)
        self.message_user(request, f"Job {job.id} makes the report.")
