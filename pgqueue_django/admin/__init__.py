"""Jobs and workers in Django's admin; imported by it when it is installed."""

from pgqueue_django.admin.jobs import JobAdmin
from pgqueue_django.admin.workers import WorkerProcessAdmin

__all__ = ["JobAdmin", "WorkerProcessAdmin"]
