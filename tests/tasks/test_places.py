"""Enqueueing from every place of a Django project that has a reason to."""

from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.core import checks
from django.core.exceptions import SynchronousOnlyOperation
from django.core.management import call_command
from django.db import connections, transaction
from django.db.models.signals import post_save
from django.http import HttpResponse
from django.test import AsyncClient, Client
from django.urls import path

from pgqueue_django import enqueue
from pgqueue_django.compat import InvalidTask, task_backends
from pgqueue_django.models import Job
from tests.tasks import handlers
from tests.tasks.conftest import BACKEND
from tests.undoing import undone

pytestmark = pytest.mark.django_db

in_real_transactions = pytest.mark.django_db(transaction=True)


def arguments():
    """Return the arguments of all jobs, in the order enqueued."""
    return list(Job.objects.order_by("id").values_list("args", flat=True))


# --- transactions ---------------------------------------------------------------------


def test_each_savepoint_keeps_or_drops_its_own_jobs():
    with transaction.atomic():
        handlers.noop.enqueue("kept")
        with undone():
            handlers.noop.enqueue("dropped")
            with transaction.atomic():
                handlers.noop.enqueue("dropped with the savepoint around it")
        with transaction.atomic(), transaction.atomic():
            handlers.noop.enqueue("kept too")

    assert arguments() == [["kept"], ["kept too"]]


@in_real_transactions
def test_on_commit_is_a_place_too():
    with transaction.atomic():
        transaction.on_commit(partial(handlers.noop.enqueue, "committed"))
        assert arguments() == []
    with undone():
        transaction.on_commit(partial(handlers.noop.enqueue, "never"))

    assert arguments() == [["committed"]]


@in_real_transactions
def test_a_robust_callback_that_is_refused_keeps_no_other_from_running(caplog):
    with transaction.atomic():
        transaction.on_commit(lambda: handlers.noop.enqueue({1}), robust=True)
        transaction.on_commit(lambda: handlers.noop.enqueue(2))

    assert arguments() == [[2]]
    assert "Unsupported type" in caplog.text


# --- another database for the jobs ----------------------------------------------------


@pytest.fixture
def jobs_elsewhere(transactional_db, settings):
    """Keep jobs on another alias, as a project does that has a server for them."""
    connections.settings["jobs"] = connections.settings["default"]
    options = {"DATABASE": "jobs"}
    settings.TASKS = {"pgqueue": {"BACKEND": BACKEND, "OPTIONS": options}}
    jobs: Any = connections["jobs"]
    # In its tests Django lets only those databases be connected to that exist before.
    jobs.ensure_connection = lambda: jobs.connection or jobs.connect()
    yield
    jobs.close()
    del connections["jobs"]
    del connections.settings["jobs"]


def test_a_job_on_another_database_outlives_a_rollback(jobs_elsewhere):
    """Why there is a check, and on_commit."""
    with undone():
        handlers.noop.enqueue("at once")
        transaction.on_commit(partial(handlers.noop.enqueue, "on commit"))

    assert arguments() == [["at once"]]


def test_jobs_on_a_database_without_other_models_are_worth_a_warning(jobs_elsewhere):
    (message,) = task_backends["pgqueue"].check()

    assert isinstance(message, checks.Warning)
    assert message.id == "pgqueue.W020"
    assert "TASKS['pgqueue'] keeps its jobs on the database 'jobs'" in message.msg
    assert "on_commit" in str(message.hint)


class GroupsThere:
    """A router that keeps a model of the project beside the jobs."""

    def db_for_write(self, model, **hints):
        return "jobs" if model is Group else None


def test_jobs_beside_models_of_the_project_are_worth_none(jobs_elsewhere, settings):
    settings.DATABASE_ROUTERS = [GroupsThere()]

    assert task_backends["pgqueue"].check() == []


# --- signals --------------------------------------------------------------------------


@pytest.fixture
def told_of_groups():
    """Enqueue a job for each group that is saved."""

    def receive(instance, **kwargs):
        handlers.noop.enqueue(instance.pk)

    post_save.connect(receive, sender=Group)
    yield
    post_save.disconnect(receive, sender=Group)


def test_a_receiver_of_post_save_enqueues_with_what_is_saved(told_of_groups):
    with undone():
        Group.objects.create(name="undone")
    kept = Group.objects.create(name="kept")

    assert arguments() == [[kept.pk]]


def test_an_async_caller_may_save_too(told_of_groups):
    group = Group(name="saved")
    async_to_sync(group.asave)()

    assert arguments() == [[group.pk]]


# --- requests -------------------------------------------------------------------------


class Refused(Exception):
    """A view's own failure, after it has enqueued."""


def enqueues(request):
    handlers.noop.enqueue(request.path)
    # Another connection than the request's.
    others = connections.create_connection("default")
    with others.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pgqueue_job")
        seen = cursor.fetchone()[0]
    others.close()
    return HttpResponse(seen)


def enqueues_and_fails(request):
    handlers.noop.enqueue(request.path)
    raise Refused


async def enqueues_async(request):
    await handlers.noop.aenqueue(request.path)
    return HttpResponse("done")


async def enqueues_with_the_wrong_verb(request):
    handlers.noop.enqueue(request.path)
    return HttpResponse("done")


urlpatterns = [
    path("enqueues/", enqueues),
    path("fails/", enqueues_and_fails),
    path("async/", enqueues_async),
    path("wrong/", enqueues_with_the_wrong_verb),
]


@pytest.fixture
def views(settings):
    """Serve the views above."""
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = []


@pytest.fixture
def atomic_requests(views, monkeypatch):
    """Serve them in a transaction each."""
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)


@in_real_transactions
def test_atomic_requests_commit_the_job_with_the_response(atomic_requests):
    response = Client().get("/enqueues/")

    assert response.content == b"0"
    assert arguments() == [["/enqueues/"]]


@in_real_transactions
def test_atomic_requests_undo_the_job_of_a_view_that_fails(atomic_requests):
    with pytest.raises(Refused):
        Client().get("/fails/")

    assert arguments() == []


@in_real_transactions
def test_without_atomic_requests_a_job_stands_at_once(views):
    assert Client().get("/enqueues/").content == b"1"
    with pytest.raises(Refused):
        Client().get("/fails/")

    assert arguments() == [["/enqueues/"], ["/fails/"]]


@in_real_transactions
def test_an_async_view_awaits_its_enqueue(views):
    response = async_to_sync(AsyncClient().get)("/async/")

    assert response.status_code == 200
    assert arguments() == [["/async/"]]


def test_an_async_view_that_would_block_the_loop_is_refused(views):
    with pytest.raises(SynchronousOnlyOperation):
        async_to_sync(AsyncClient().get)("/wrong/")

    assert arguments() == []


# --- migrations -----------------------------------------------------------------------

MIGRATION = """
from django.db import migrations
from pgqueue_django import enqueue
from tests.tasks import handlers

def forwards(apps, schema_editor):
    handlers.noop.enqueue("from a migration")
    enqueue("tests.tasks.handlers.noop", ["by name"])
    {end}

class Migration(migrations.Migration):
    dependencies = [("pgqueue_django", "0001_initial")]
    operations = [migrations.RunPython(forwards, migrations.RunPython.noop)]
"""


@pytest.fixture
def migrate(tmp_path, monkeypatch, settings):
    """Return a function that migrates a project's app whose migration ends so."""

    def migrated(app, end):
        migrations = tmp_path / app / "migrations"
        migrations.mkdir(parents=True)
        for folder in (migrations.parent, migrations):
            (folder / "__init__.py").touch()
        (migrations / "0001_data.py").write_text(MIGRATION.format(end=end))
        monkeypatch.syspath_prepend(tmp_path)
        settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, app]
        call_command("migrate", app, verbosity=0)

    return migrated


def test_a_data_migration_enqueues(migrate):
    migrate("migrated_shop", "return")

    assert arguments() == [["from a migration"], ["by name"]]


@in_real_transactions
def test_a_migration_that_fails_undoes_its_jobs(migrate):
    with pytest.raises(ZeroDivisionError):
        migrate("failed_shop", "1 / 0")

    assert arguments() == []


# --- shells and scripts ---------------------------------------------------------------


def test_the_shell_enqueues_the_tasks_of_apps():
    call_command(
        "shell",
        command="from tests.tasks.handlers import noop; noop.enqueue('typed')",
    )

    assert arguments() == [["typed"]]


@pytest.mark.parametrize(
    "line",
    [
        "@task\ndef typed(): pass",
        "typed = task(lambda: None)",
    ],
)
def test_the_shell_is_told_that_no_worker_could_import_its_functions(line):
    with pytest.raises(InvalidTask, match="`tasks` module of an installed app"):
        call_command("shell", command=f"from pgqueue_django import task\n{line}")


# --- arguments that are no data -------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (lambda: Group.objects.create(name="saved"), "pass its primary key"),
        (lambda: Group(name="new"), "pass its primary key"),
        (Group.objects.all, "pass a list of primary keys"),
        (lambda: Group.objects.values_list("pk"), "pass a list of primary keys"),
        (Group.objects.none, "pass a list of primary keys"),
    ],
    ids=["saved", "unsaved", "queryset", "values", "none"],
)
@pytest.mark.parametrize(
    "call",
    [
        handlers.noop.enqueue,
        lambda value: handlers.noop.enqueue(deep=[{"it": value}]),
        async_to_sync(handlers.noop.aenqueue),
        lambda value: enqueue("tests.tasks.handlers.noop", [value]),
    ],
    ids=["enqueue", "deep", "aenqueue", "by name"],
)
def test_models_and_querysets_are_refused_without_a_query(
    call, value, advice, django_assert_num_queries
):
    given = value()

    with (
        django_assert_num_queries(0),
        pytest.raises(TypeError, match=advice),
    ):
        call(given)

    assert arguments() == []
