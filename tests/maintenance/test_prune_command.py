"""``manage.py pgqueue_prune``."""

import signal
import subprocess
import sys
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from pgqueue_django.models import Job
from tests import factories
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

DAY = 86_400


def prune(*args: str, **options: Any) -> str:
    out = StringIO()
    call_command("pgqueue_prune", *args, share=100, stdout=out, **options)
    return out.getvalue()


@pytest.fixture
def jobs() -> dict[str, Any]:
    """Jobs that finished eight days ago."""
    made = {
        "succeeded": factories.succeeded(),
        "cancelled": factories.cancelled(),
        "dead": factories.dead(),
        "mail": factories.succeeded(queue="mail"),
    }
    for job in made.values():
        factories.tick(job.id, finished_at=-8 * DAY)
    return made


def left(jobs: dict[str, Any]) -> set[str]:
    kept = set(Job.objects.values_list("id", flat=True))
    return {name for name, job in jobs.items() if job.id in kept}


def test_deletes_what_the_settings_say(jobs):
    assert prune() == "3 jobs deleted\n"
    assert left(jobs) == {"dead"}


def test_what_was_kept_in_the_settings_of_a_queue_stays(jobs, settings):
    settings.PGQUEUE = {"QUEUE_RETENTION": {"mail": {"succeeded": 9 * DAY}}}

    prune()

    assert left(jobs) == {"dead", "mail"}


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        (["--queue", "mail"], {"succeeded", "cancelled", "dead"}),
        (["--state", "cancelled"], {"succeeded", "dead", "mail"}),
        (["--state", "cancelled", "--state", "succeeded"], {"dead"}),
        (["--older-than", "9d"], {"succeeded", "cancelled", "dead", "mail"}),
        (["--older-than", "1h"], {"dead"}),
        (["--older-than", "9m", "--state", "dead"], {"succeeded", "cancelled", "mail"}),
        (["--state", "dead"], {"succeeded", "cancelled", "dead", "mail"}),
        (["--older-than", "0", "--queue", "mail", "--state", "succeeded"],
         {"succeeded", "cancelled", "dead"}),
    ],
)  # fmt: skip
def test_options_choose(jobs, args, kept):
    prune(*args)

    assert left(jobs) == kept


def test_a_dry_run_only_counts(jobs):
    assert prune("--dry-run") == (
        "default cancelled: 1\ndefault succeeded: 1\nmail succeeded: 1\n"
    )
    assert left(jobs) == set(jobs)


@pytest.mark.parametrize(
    "args",
    [
        ["--older-than", "-1"],
        ["--older-than", "5w"],
        ["--older-than", "9999999999"],
        ["--batch", "0"],
        ["--share", "101"],
        ["--state", "running"],
        ["--database", "nowhere"],
    ],
)
def test_wrong_options_are_named(args):
    with pytest.raises(CommandError, match=args[0]):
        call_command("pgqueue_prune", *args)


def test_goes_batch_by_batch(jobs, django_assert_max_num_queries):
    assert prune("--batch", "1") == "3 jobs deleted\n"
    assert left(jobs) == {"dead"}


@pytest.mark.django_db(transaction=True)
def test_what_was_deleted_before_a_kill_stays_deleted(connect, tmp_path):
    """PRF-07: with no worker, killed halfway."""
    plain = connect()
    plain.execute(
        "INSERT INTO pgqueue_job (queue, task, args, kwargs, state, priority, run_at,"
        " enqueued_at, attempts, max_attempts, worker, errors, finished_at)"
        " SELECT 'q', 't', '[]', '{}', 'succeeded', 0, now(), now(), 1, 5, '', '[]',"
        " now() - interval '30 d' FROM generate_series(1, 5000)"
    )
    given = connection.settings_dict
    settings = tmp_path / "killed_settings.py"
    settings.write_text(
        f"from tests.settings import *\nDATABASES['default'] = {given!r}\n"
    )
    command = [
        sys.executable, "-m", "django", "pgqueue_prune", "--batch", "10",
        "--share", "20", "--settings", "killed_settings", "--pythonpath", str(tmp_path),
    ]  # fmt: skip
    with subprocess.Popen(command) as process:
        wait_until(lambda: Job.objects.count() < 5_000, timeout=30)
        process.send_signal(signal.SIGKILL)
    remaining = Job.objects.count()

    assert 0 < remaining < 5_000
    assert prune() == f"{remaining:,} jobs deleted\n"
