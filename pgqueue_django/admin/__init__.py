"""Jobs in Django's admin; imported by it when it is installed."""

from pgqueue_django.admin.jobs import JobAdmin

__all__ = ["JobAdmin"]
