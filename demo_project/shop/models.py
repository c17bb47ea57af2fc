"""What the shop stores."""

from django.db import models


class Order(models.Model):
    """One customer wants one thing."""

    customer = models.EmailField()
    item = models.CharField(max_length=100)
    placed_at = models.DateTimeField(auto_now_add=True)
    confirmed_at = models.DateTimeField(null=True, editable=False)

    objects: "models.Manager[Order]" = models.Manager()

    def __str__(self) -> str:
        return f"order {self.pk}: {self.item}"
