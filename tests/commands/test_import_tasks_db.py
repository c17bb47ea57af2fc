"""Moving the waiting tasks of django-tasks-db to this queue."""

from datetime import UTC, datetime
from importlib.util import find_spec

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection

from pgqueue_django.models import Job
from tests.tasks import handlers

ADD = "tests.tasks.handlers.add"
MODEL = ("django_tasks_database", "DBTaskResult")
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
LATER = datetime(2040, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.django_db


@pytest.fixture
def old(settings):
    """Return the model of django-tasks-db, with its table."""
    if find_spec("django_tasks_db") is None:
        pytest.skip("django-tasks-db is not installed")
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "django_tasks_db"]
    model = apps.get_model(*MODEL)
    with connection.schema_editor() as editor:
        editor.create_model(model)
    return model


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
