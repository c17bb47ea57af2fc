"""A project's own tests, by other runners than this suite's (DJG-14)."""

import psycopg
import pytest

SUITE = """
from threading import Thread
from unittest import expectedFailure

from django.test import TestCase, TransactionTestCase

from pgqueue_django.models import Job
from pgqueue_django.testing import run_jobs
from pgqueue_django.worker import Worker
from tests.waiting import wait_until
from shop.tasks import add


class Worked:
    def test_in_place(self):
        result = add.enqueue(1, 2)
        run_jobs()
        assert add.get_result(result.id).return_value == 3


class Fails:
    @expectedFailure
    def test_in_the_middle(self):
        worker = Worker(threads=2, poll_interval=0.05)
        thread = Thread(target=worker.run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(worker.stop)
        add.enqueue(1, 2)
        wait_until(Job.objects.filter(state="succeeded").exists)
        raise AssertionError("in the middle")


# Django gives each class to one of its processes.
class FirstWorked(Worked, TestCase): pass
class SecondWorked(Worked, TestCase): pass
class FirstFails(Fails, TransactionTestCase): pass
class SecondFails(Fails, TransactionTestCase): pass
"""
TASKS = """
from pgqueue_django import task

@task
def add(first, second):
    return first + second
"""
DATABASES = "SELECT datname FROM pg_database WHERE starts_with(datname, %s)"


@pytest.fixture
def shop(project):
    """Return a project with tests."""
    project.write("shop/__init__.py", "")
    project.write("shop/tasks.py", TASKS)
    project.write("shop/tests.py", SUITE)
    project.set("INSTALLED_APPS += ['shop']\n")
    return project


@pytest.fixture
def left(empty_database, connection_parameters):
    """Return a function that gives the names of the test databases that are left."""

    def look():
        parameters = connection_parameters(dbname="postgres")
        with psycopg.connect(**parameters) as server:
            names = server.execute(DATABASES, [f"test_{empty_database['NAME']}"])
            return {name for (name,) in names}

    return look


@pytest.mark.parametrize("processes", [1, 4])
def test_djangos_runner_drops_every_database_after_workers_of_failed_tests(
    shop, left, processes
):
    """DJG-14: --keepdb first, so that the second run finds what the first kept."""
    command = ("-m", "django", "test", "--noinput", f"--parallel={processes}")
    if processes == 1:
        # Processes that Django forks would share the connections in their parent's.
        shop.set("DATABASES['default']['OPTIONS'] = {'pool': {'max_size': 8}}\n")

    kept = shop.run(*command, "--keepdb")
    databases = left()
    dropped = shop.run(*command)

    assert "OK (expected failures=2)" in kept
    assert "OK (expected failures=2)" in dropped
    assert len(databases) == (5 if processes > 1 else 1)
    assert left() == set()


def test_pytest_xdist_drops_every_database_after_workers_of_failed_tests(shop, left):
    """DJG-14."""
    command = ("-m", "pytest", "shop/tests.py", "-n", "2", "-p", "no:cacheprovider")

    said = shop.run(*command, "--ds=site_settings")

    assert "2 passed, 2 xfailed" in said
    assert left() == set()
