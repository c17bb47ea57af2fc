"""The jobs, as tasks of Django's own API, for the backends that have no other."""

import django
from django.core.management import call_command
from django.db import transaction
from django.tasks import task

from bench.peers import handlers

django.setup()


@task
def warm() -> None:
    handlers.warm()


@task
def noop() -> None:
    handlers.noop()


@task
def stamp(number: int) -> None:
    handlers.stamp(number)


def set_up() -> None:
    call_command("migrate", verbosity=0)


def fill(name: str, count: int) -> None:
    wanted = {"warm": warm, "noop": noop}[name]
    with transaction.atomic():
        for _ in range(count):
            wanted.enqueue()


def enqueue(number: int) -> None:
    stamp.enqueue(number)
