"""``task.spec()``: what ``enqueue`` would store, for ``enqueue_many``."""

from datetime import UTC, datetime

import pytest

from pgqueue_django.compat import InvalidTask
from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.models import Job
from tests.tasks import handlers

LATER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.mark.django_db
def test_many_are_stored_as_one_by_one():
    changed = handlers.add.using(queue="other", priority=7, run_at=LATER, timeout=9)
    (id_,) = Job.objects.enqueue_many([changed.spec(1, second=2)])
    single = changed.enqueue(1, second=2)

    same = ("task", "args", "kwargs", "queue", "priority", "run_at", "state",
            "max_attempts", "timeout_seconds", "idempotency_key")  # fmt: skip
    stored = Job.objects.values(*same)
    assert stored.get(id=id_) == stored.get(id=single.job_id)


def test_what_cannot_be_stored_is_refused_at_once():
    with pytest.raises(InvalidJob, match="args"):
        handlers.add.spec(object())  # type: ignore[arg-type]


def test_a_backend_that_stores_no_jobs_is_refused(settings):
    settings.TASKS = {
        "at_once": {"BACKEND": f"{_framework()}.backends.immediate.ImmediateBackend"}
    }
    with pytest.raises(InvalidTask, match="backend: 'at_once' is a ImmediateBackend"):
        handlers.add.using(backend="at_once").spec(1, second=2)


def _framework() -> str:
    from pgqueue_django.compat import Task

    return Task.__module__.rpartition(".")[0]
