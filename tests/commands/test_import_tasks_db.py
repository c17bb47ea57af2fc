"""Moving the waiting tasks of django-tasks-db to this queue."""

from datetime import UTC, datetime

import pytest
from django.apps import apps
from django.contrib import admin
from django.core.management import CommandError, call_command
from django.db import connection

from pgqueue_django.management.commands import pgqueue_import_tasks_db
from pgqueue_django.models import Job
from tests.tasks import handlers
from tests.threads import Started

ADD = "tests.tasks.handlers.add"
MODEL = ("django_tasks_database", "DBTaskResult")
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
LATER = datetime(2040, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.django_db


@pytest.fixture
def old(settings):
    """Return the model of django-tasks-db, with its table."""
    try:
        settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "django_tasks_db"]
    except ImportError as error:
        pytest.skip(f"django-tasks-db cannot be imported: {error}")
    model = apps.get_model(*MODEL)
    with connection.schema_editor() as editor:
        editor.create_model(model)
    yield model
    # Its admin was found when the app came, and stays when it goes.
    if admin.site.is_registered(model):
        admin.site.unregister(model)
    # Else it is undone with the test's transaction.
    if not connection.in_atomic_block:
        with connection.schema_editor() as editor:
            editor.delete_model(model)


def waiting(model, path=ADD, *args, **columns):
    return model.objects.create(
        **{
            "task_path": path,
            "args_kwargs": {"args": list(args), "kwargs": {}},
            "run_after": NEVER,
            "backend_name": "default",
        }
        | columns
    )


def run(**options):
    call_command("pgqueue_import_tasks_db", **options)


def test_without_the_app_it_says_what_is_missing():
    with pytest.raises(CommandError, match="'django_tasks_db' is not in INSTALLED"):
        run()


def test_each_waiting_task_becomes_a_job_with_its_options(old):
    waiting(old, ADD, 1)
    waiting(old, ADD, 2, priority=7, queue_name="mail", run_after=LATER)

    run()

    now, later = Job.objects.order_by("id")
    assert (now.task, now.args, now.state) == (handlers.add.task_name, [1], "queued")
    assert (later.args, later.priority, later.queue) == ([2], 7, "mail")
    assert (later.state, later.run_at) == ("scheduled", LATER)
    assert not old.objects.exists()


def test_a_name_of_its_own_is_what_the_job_stores(old):
    named = next(
        name
        for name, each in vars(handlers).items()
        if getattr(each, "registered_name", None) == "stable.name"
    )
    waiting(old, f"tests.tasks.handlers.{named}")

    run()

    assert Job.objects.get().task == "stable.name"


def test_what_runs_or_has_finished_stays(old):
    for status in ("RUNNING", "SUCCESSFUL", "FAILED"):
        waiting(old, status=status)

    run()

    assert not Job.objects.exists()
    assert old.objects.count() == 3


def test_a_second_run_moves_nothing_twice(old):
    waiting(old)

    run()
    run()

    assert Job.objects.count() == 1


def test_a_dry_run_tells_and_changes_nothing(old, capsys):
    waiting(old)

    run(dry_run=True)

    assert f"{ADD}: 1" in capsys.readouterr().out
    assert not Job.objects.exists()
    assert old.objects.count() == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": "tests.tasks.handlers.gone"},
        {"path": "tests.tasks.handlers.timedelta"},
        {"path": "no.such.module"},
        {"queue_name": "a,b"},
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_one_task_that_cannot_be_moved_leaves_all_where_they_are(old, wrong, dry_run):
    waiting(old)
    row = waiting(old, **wrong)

    with pytest.raises(CommandError, match=rf"1 of 2 tasks.*\n{row.pk}"):
        run(dry_run=dry_run)

    assert not Job.objects.exists()
    assert old.objects.count() == 2


@pytest.fixture
def two_at_once(monkeypatch):
    monkeypatch.setattr(pgqueue_import_tasks_db, "_AT_ONCE", 2)


def test_all_chunks_are_moved_in_the_order_they_were_enqueued(old, two_at_once):
    for number in range(5):
        waiting(old, ADD, number)

    run()

    assert [job.args for job in Job.objects.order_by("id")] == [[n] for n in range(5)]
    assert not old.objects.exists()


def test_a_task_that_cannot_be_moved_undoes_the_chunks_before_it(old, two_at_once):
    for number in range(4):
        waiting(old, ADD, number)
    waiting(old, "tests.tasks.handlers.gone")

    with pytest.raises(CommandError, match="1 of 5 tasks"):
        run()

    assert not Job.objects.exists()
    assert old.objects.count() == 5


def test_no_more_rows_are_read_than_a_chunk(old, two_at_once, monkeypatch):
    """The second chunk is asked for when the first has become jobs."""
    for number in range(4):
        waiting(old, ADD, number)
    steps = []
    spec_of = pgqueue_import_tasks_db._spec
    enqueue_many = type(Job.objects).enqueue_many

    def told_spec(row):
        steps.append("row")
        return spec_of(row)

    def told_enqueue(self, specs):
        steps.append("jobs")
        return enqueue_many(self, specs)

    monkeypatch.setattr(pgqueue_import_tasks_db, "_spec", told_spec)
    monkeypatch.setattr(type(Job.objects), "enqueue_many", told_enqueue)

    run()

    assert steps == ["row", "row", "jobs"] * 2


class OldOnesElsewhere:
    """A router that keeps the tables of django-tasks-db in a database of their own."""

    def db_for_write(self, model, **hints):
        return "elsewhere" if model._meta.app_label == MODEL[0] else None


def test_two_databases_are_refused(old, settings):
    waiting(old)
    settings.DATABASE_ROUTERS = [OldOnesElsewhere()]

    with pytest.raises(CommandError, match="'elsewhere' and the jobs on 'default'"):
        run()

    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_what_a_worker_of_theirs_has_locked_is_left_to_it(old, connect):
    locked, free = waiting(old, ADD, 1), waiting(old, ADD, 2)
    worker = connect()
    worker.execute("BEGIN")
    table = old._meta.db_table
    worker.execute(f"SELECT 1 FROM {table} WHERE id = %s FOR UPDATE", [locked.pk])

    run()

    assert Job.objects.get().args == [2]
    assert old.objects.get() == locked != free


@pytest.mark.django_db(transaction=True)
def test_two_imports_at_once_move_each_task_once(old, monkeypatch):
    """The second one runs when the first has read its rows, and before it commits."""
    for number in range(3):
        waiting(old, ADD, number)
    enqueue_many = type(Job.objects).enqueue_many

    def run_another_first(self, specs):
        monkeypatch.undo()
        with Started(run) as other:
            other.result()
        return enqueue_many(self, specs)

    monkeypatch.setattr(type(Job.objects), "enqueue_many", run_another_first)

    run()

    assert [job.args for job in Job.objects.order_by("id")] == [[0], [1], [2]]
    assert not old.objects.exists()
