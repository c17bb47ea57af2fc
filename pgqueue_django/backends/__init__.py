"""The backend for ``settings.TASKS``."""

from pgqueue_django.backends.pgqueue import PgQueueBackend

__all__ = ["PgQueueBackend"]
