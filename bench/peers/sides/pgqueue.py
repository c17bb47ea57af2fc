"""This package, by the same rules as the others."""

import django
from django.core.management import call_command

django.setup()

from bench.peers.sides import pgqueue_tasks  # noqa: E402 - needs the apps
from pgqueue_django.models import Job  # noqa: E402
from pgqueue_django.specs import JobSpec  # noqa: E402


def set_up() -> None:
    call_command("migrate", verbosity=0)


def fill(name: str, count: int) -> None:
    task = getattr(pgqueue_tasks, name).task_name
    Job.objects.enqueue_many(JobSpec.build(task=task) for _ in range(count))


def enqueue(number: int) -> None:
    pgqueue_tasks.stamp.enqueue(number)
