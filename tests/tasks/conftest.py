import importlib

import pytest

from pgqueue_django.compat import Task
from pgqueue_django.registry import registry

BACKEND = "pgqueue_django.backends.PgQueueBackend"
DUMMY = f"{Task.__module__.rpartition('.')[0]}.backends.dummy.DummyBackend"
IMMEDIATE = f"{Task.__module__.rpartition('.')[0]}.backends.immediate.ImmediateBackend"


@pytest.fixture
def django_task():
    """Django's own decorator, or the backport's."""
    return importlib.import_module(Task.__module__).task


@pytest.fixture
def clean_registry():
    """Undo what a test registers."""
    tasks = dict(registry._tasks)
    yield registry
    registry._tasks.clear()
    registry._tasks.update(tasks)


@pytest.fixture
def tasks_setting(settings):
    """Set ``TASKS``, as every test does that is about an alias."""

    def set_tasks(**aliases):
        settings.TASKS = aliases

    return set_tasks
