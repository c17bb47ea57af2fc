"""The Django app."""

from django.apps import AppConfig, apps


class PgQueueConfig(AppConfig):
    """A durable job queue on PostgreSQL."""

    name = "pgqueue_django"
    label = "pgqueue_django"
    verbose_name = "PostgreSQL job queue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connect the receivers and register the checks; touch no database."""
        from pgqueue_django import checks, logs  # noqa: F401

        if apps.is_installed("django_prometheus"):
            from pgqueue_django.contrib.prometheus import register

            register()
