"""Migrations beside producers and workers that go on (DJG-02)."""

# Django makes lists of its own for each migration.
# ruff: noqa: RUF012

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import psycopg
import pytest
from django.contrib.postgres.operations import (
    AddConstraintNotValid,
    AddIndexConcurrently,
    ValidateConstraint,
)
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader

from tests.projects.migrating import objections
from tests.waiting import wait_until

APP = "pgqueue_django"
BOUND = migrations.RunSQL("SET LOCAL lock_timeout = '100ms'", migrations.RunSQL.noop)
INDEX = models.Index(fields=["note"], name="pgqueue_job_note")
CHECK = models.CheckConstraint(
    condition=~models.Q(queue="never"), name="pgqueue_job_never"
)


def column(field):
    return migrations.AddField("job", "note", field)


class Column(migrations.Migration):
    """A column, as a release after this one would add it."""

    dependencies = [(APP, "0001_initial")]
    operations = [BOUND, column(models.TextField(null=True))]


class Index(migrations.Migration):
    """Its index."""

    atomic = False
    dependencies = [(APP, "0002_column")]
    operations = [AddIndexConcurrently("job", INDEX)]


class LockingIndex(migrations.Migration):
    """Its index, as ``makemigrations`` would write it."""

    dependencies = [(APP, "0002_column")]
    operations = [migrations.AddIndex("job", INDEX)]


def made(*operations, atomic=True):
    values = {"operations": operations, "atomic": atomic}
    return type("Sample", (migrations.Migration,), values)("0002_sample", APP)


# --- what is written --------------------------------------------------------------


def test_no_migration_after_the_first_stops_the_queue():
    """DJG-02."""
    ours = MigrationLoader(None).disk_migrations
    later = [
        migration
        for (app, name), migration in ours.items()
        if app == APP and name != "0001_initial"
    ]

    assert (APP, "0001_initial") in ours
    assert [objections(migration) for migration in later] == [[] for _ in later]


@pytest.mark.parametrize(
    "harmless",
    [
        Column("0002_column", APP),
        Index("0003_index", APP),
        made(BOUND, column(models.IntegerField(db_default=0))),
        made(BOUND, AddConstraintNotValid("job", CHECK)),
        made(ValidateConstraint("job", CHECK.name)),
        made(migrations.CreateModel("Other", [])),
    ],
)
def test_what_is_made_for_a_queue_at_work_is_let_by(harmless):
    """DJG-02."""
    assert objections(harmless) == []


@pytest.mark.parametrize(
    ("harmful", "reason"),
    [
        (made(column(models.TextField(null=True))), "waits without end"),
        (made(BOUND, column(models.TextField(default=""))), "old producers"),
        (made(BOUND, column(models.TextField(null=True, db_index=True))), "an index"),
        (made(BOUND, column(models.TextField(null=True, unique=True))), "an index"),
        (
            made(
                BOUND,
                column(models.ForeignKey("self", models.CASCADE, null=True)),
            ),
            "another table",
        ),
        (LockingIndex("0003_index", APP), "not known to be harmless"),
        (made(AddIndexConcurrently("job", INDEX)), "atomic = False"),
        (made(migrations.AddConstraint("job", CHECK)), "not known to be harmless"),
        (made(AddConstraintNotValid("job", CHECK)), "waits without end"),
        (
            made(
                BOUND,
                AddConstraintNotValid("job", CHECK),
                ValidateConstraint("job", CHECK.name),
            ),
            "under the locks",
        ),
        (made(migrations.RemoveField("job", "args")), "not known to be harmless"),
        (made(migrations.RenameField("job", "args", "a")), "not known to be harmless"),
        (made(migrations.RunSQL("VACUUM FULL pgqueue_job")), "not known"),
        (made(migrations.RunPython(print)), "not known to be harmless"),
    ],
)
def test_what_stops_a_queue_at_work_is_objected_to(harmful, reason):
    """DJG-02."""
    (objection,) = objections(harmful)

    assert reason in objection


# --- what happens -----------------------------------------------------------------

RELEASE = """
from tests.projects import test_migrating

class Migration(test_migrating.{kind}):
    pass
"""
FIRST = """
from importlib import import_module

class Migration(import_module("pgqueue_django.migrations.0001_initial").Migration):
    pass
"""
TASKS = """
from pgqueue_django import task

@task
def add(first, second):
    return first + second
"""
USE = """
from django.core.management import call_command
from shop.tasks import add

result = add.enqueue(1, 2)
call_command("pgqueue_worker", drain=True)
assert add.get_result(result.id).return_value == 3
"""


@pytest.fixture
def hold(empty_database, connection_parameters):
    """Return a context manager in which another session has tables locked."""

    @contextmanager
    def held(tables, mode):
        with closing(
            psycopg.connect(**connection_parameters(dbname=empty_database["NAME"]))
        ) as other:
            other.execute(f"LOCK TABLE {tables} IN {mode} MODE")
            yield

    return held


@pytest.fixture
def release(project):
    """Return a function that makes the project's next release, its first in place."""
    project.write("releases/__init__.py", "")
    project.write("releases/0001_initial.py", FIRST)
    project.write("shop/__init__.py", "")
    project.write("shop/tasks.py", TASKS)
    project.set(
        """
        MIGRATION_MODULES = {"pgqueue_django": "releases"}
        INSTALLED_APPS += ["shop"]
        """
    )
    project.manage("migrate")
    # Whoever waits for a lock fails, instead of this test's timeout.
    project.environment["PGOPTIONS"] = "-c lock_timeout=3s"

    def make(name, kind):
        project.write(f"releases/{name}.py", RELEASE.format(kind=kind))

    return make


def test_the_first_migration_waits_for_no_table_of_the_project(project, hold):
    """DJG-02."""
    project.manage("migrate", "auth")
    project.environment["PGOPTIONS"] = "-c lock_timeout=3s"

    with hold("auth_user, auth_group, auth_user_groups", "ACCESS EXCLUSIVE"):
        project.manage("migrate", APP)


def test_a_column_that_has_to_wait_gives_way_and_comes_later(project, release, hold):
    """DJG-02: a producer's long transaction is open."""
    release("0002_column", "Column")

    with hold("pgqueue_job", "ROW EXCLUSIVE"):
        assert "lock timeout" in project.refused("migrate", APP)
        project.python(USE)

    project.manage("migrate", APP)
    project.python(USE)


@pytest.fixture
def waits(watcher, empty_database):
    """Return a function that tells whether a session of the project waits."""
    return lambda: watcher.blocked(empty_database["NAME"])


@pytest.mark.parametrize("kind", ["Index", "LockingIndex"])
def test_the_queue_works_while_an_index_waits_but_for_a_locking_one(
    project, release, hold, waits, kind
):
    """DJG-02: the second is what makemigrations would write."""
    release("0002_column", "Column")
    project.manage("migrate", APP)
    release("0003_index", kind)

    with ThreadPoolExecutor() as pool:
        with hold("pgqueue_job", "ROW EXCLUSIVE"):
            # It may wait for as long as it likes, those who use the queue may not.
            unbounded = project.with_environment(PGOPTIONS="")
            migrating = pool.submit(unbounded.manage, "migrate", APP)
            wait_until(waits, timeout=30)
            if kind == "Index":
                project.python(USE)
            else:
                with pytest.raises(AssertionError, match="lock timeout"):
                    project.python(USE)
        migrating.result()
    project.python(USE)
