import dataclasses
import pickle
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.core import checks
from django.db import connection, transaction
from django.utils.translation import gettext_lazy

from pgqueue_django import IdempotencyConflict, InvalidJob, UnknownTask, enqueue, task
from pgqueue_django.backends import PgQueueBackend
from pgqueue_django.compat import (
    BaseTaskBackend,
    InvalidTask,
    InvalidTaskBackend,
    TaskResultStatus,
    task_backends,
    task_enqueued,
)
from pgqueue_django.models import Job
from pgqueue_django.registry import registry
from pgqueue_django.states import State
from pgqueue_django.tasks import QueueTask
from tests.tasks import handlers
from tests.tasks.conftest import BACKEND, DUMMY, IMMEDIATE

LATER = datetime(2030, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)


@pytest.fixture
def enqueued():
    """The results that ``task_enqueued`` was sent with."""
    seen = []

    def receive(sender, task_result, **kwargs):
        seen.append((sender, task_result))

    task_enqueued.connect(receive)
    yield seen
    task_enqueued.disconnect(receive)


# --- without and with TASKS -----------------------------------------------------------


def test_needs_no_setting():
    backend = handlers.add.get_backend()
    assert isinstance(backend, PgQueueBackend)
    assert backend.alias == handlers.add.backend == "pgqueue"


def test_supports_all_that_the_framework_knows():
    assert issubclass(PgQueueBackend, BaseTaskBackend)
    assert PgQueueBackend.supports_defer
    assert PgQueueBackend.supports_async_task
    assert PgQueueBackend.supports_get_result
    assert PgQueueBackend.supports_priority


def test_a_task_takes_the_first_alias_that_is_ours(tasks_setting, clean_registry):
    tasks_setting(
        default={"BACKEND": DUMMY}, jobs={"BACKEND": BACKEND}, more={"BACKEND": BACKEND}
    )
    assert task(handlers.plain).backend == "jobs"


def test_a_task_takes_an_alias_of_a_subclass(tasks_setting, clean_registry):
    tasks_setting(
        broken={"BACKEND": "does.not.exist"},
        none={},
        mine={"BACKEND": f"{__name__}.OwnBackend"},
    )
    assert task(handlers.plain).backend == "mine"


class OwnBackend(PgQueueBackend):
    """A project's own subclass."""


def test_djangos_decorator_makes_the_same_tasks(
    tasks_setting, clean_registry, django_task
):
    tasks_setting(default={"BACKEND": BACKEND})
    made = django_task(handlers.plain)
    assert isinstance(made, QueueTask)
    assert registry.get("tests.tasks.handlers.plain") is made


def test_aliases_stand_side_by_side(tasks_setting):
    tasks_setting(
        a={"BACKEND": BACKEND, "QUEUES": ["a"]}, b={"BACKEND": BACKEND, "QUEUES": ["b"]}
    )
    assert handlers.add.using(backend="a", queue="a").queue_name == "a"
    assert handlers.add.using(backend="b", queue="b").queue_name == "b"
    with pytest.raises(InvalidTask, match="Queue 'a' is not valid for backend"):
        handlers.add.using(backend="b", queue="a")


def test_an_unknown_queue_comes_with_the_known_ones(tasks_setting):
    tasks_setting(a={"BACKEND": BACKEND, "QUEUES": ["default", "mail"]})
    with pytest.raises(InvalidTask) as refusal:
        handlers.add.using(backend="a", queue="mial")
    assert str(refusal.value) == (
        "Queue 'mial' is not valid for backend. Its QUEUES are 'default', 'mail'. "
        "Did you mean 'mail'?"
    )


def test_no_alias_at_all_is_an_error_at_enqueue(tasks_setting):
    tasks_setting(jobs={"BACKEND": BACKEND})
    called = handlers.add.using(backend="jobs")
    tasks_setting()
    with pytest.raises(InvalidTaskBackend, match="The connection 'jobs' doesn't exist"):
        called.enqueue(1)


def test_a_test_can_send_tasks_elsewhere(tasks_setting):
    tasks_setting(pgqueue={"BACKEND": DUMMY, "QUEUES": []})
    result = handlers.add.enqueue(1)
    assert task_backends["pgqueue"].get_result(result.id) == result


@pytest.mark.django_db
def test_a_task_declared_for_another_backend_can_come_here(
    tasks_setting, clean_registry, django_task
):
    tasks_setting(default={"BACKEND": DUMMY}, jobs={"BACKEND": BACKEND})
    made = django_task(handlers.plain)
    result = made.using(backend="jobs").enqueue(1)
    assert result.task == made.using(backend="jobs")
    assert made.using(backend="jobs").get_result(result.id) == result
    assert Job.objects.get().task == "tests.tasks.handlers.plain"


@pytest.mark.django_db
def test_a_setting_that_changes_after_the_import_counts(
    tasks_setting, clean_registry, django_task
):
    tasks_setting(default={"BACKEND": IMMEDIATE})
    made = django_task(handlers.plain)
    tasks_setting(default={"BACKEND": BACKEND})
    result = made.enqueue(1, second=2)
    assert made.get_result(result.id) == result
    assert registry.declared("tests.tasks.handlers.plain") is made
    assert isinstance(registry.find("tests.tasks.handlers.plain"), QueueTask)


# --- enqueue --------------------------------------------------------------------------


@pytest.mark.django_db
def test_stores_a_job():
    result = handlers.add.enqueue(1, second=2)
    job = Job.objects.get(pk=result.job_id)
    assert job.task == "tests.tasks.handlers.add"
    assert (job.args, job.kwargs) == ([1], {"second": 2})
    assert (job.state, job.queue, job.priority) == (State.QUEUED, "default", 0)
    assert (job.max_attempts, job.timeout_seconds) == (5, None)


@pytest.mark.django_db
def test_returns_a_ready_result():
    result = handlers.add.enqueue(1, second=2)
    assert result.status == TaskResultStatus.READY
    assert result.task == handlers.add
    assert (result.args, result.kwargs) == ([1], {"second": 2})
    assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
    assert result.enqueued_at is not None
    assert result.started_at is result.finished_at is result.last_attempted_at is None
    assert not result.is_finished
    assert not result.replayed
    assert len(result.id) < 64
    with pytest.raises(ValueError, match="Task has not finished yet"):
        result.return_value  # noqa: B018 - the property is the test


@pytest.mark.django_db
def test_tells_by_signal_once_it_is_stored(enqueued):
    result = handlers.add.enqueue(1)
    ((sender, sent),) = enqueued
    assert sender is PgQueueBackend
    assert sent is result


@pytest.mark.django_db(transaction=True)
def test_enqueues_without_blocking_the_loop(enqueued):
    result = async_to_sync(handlers.add_async.aenqueue)(1, second=2)
    assert result == handlers.add_async.get_result(result.id)
    assert async_to_sync(handlers.add_async.aget_result)(result.id) == result
    assert len(enqueued) == 1


@pytest.mark.django_db
def test_stores_what_a_task_and_a_call_ask_for():
    handlers.with_every_option.using(
        delay=60,
        priority=-3,
        idempotency_key="k",
        unique_key="u",
        max_attempts=8,
        timeout=4,
    ).enqueue()
    job = Job.objects.get()
    assert (job.task, job.queue, job.priority) == ("stable.name", "mail", -3)
    assert (job.max_attempts, job.timeout_seconds) == (8, 4.0)
    assert (job.idempotency_key, job.unique_key) == ("k", "u")
    assert job.state == State.SCHEDULED
    assert job.run_at - job.enqueued_at == timedelta(seconds=60)


@pytest.mark.django_db
def test_a_call_goes_before_its_task_and_that_before_the_settings(
    tasks_setting, settings
):
    settings.PGQUEUE = {"MAX_ATTEMPTS": 2}
    tasks_setting(
        jobs={
            "BACKEND": BACKEND,
            "QUEUES": [],
            "OPTIONS": {"MAX_ATTEMPTS": 4, "TIMEOUT": 40},
        },
        bare={"BACKEND": BACKEND},
    )

    def limits(called):
        job = Job.objects.get(pk=called.enqueue().job_id)
        return job.max_attempts, job.timeout_seconds

    assert limits(handlers.add.using(backend="bare")) == (2, None)
    assert limits(handlers.add.using(backend="jobs")) == (4, 40.0)
    assert limits(handlers.with_every_option.using(backend="jobs")) == (3, 90.0)
    call = handlers.with_every_option.using(backend="jobs", max_attempts=9, timeout=1)
    assert limits(call) == (9, 1.0)


def test_options_give_a_backoff(tasks_setting):
    tasks_setting(
        jobs={"BACKEND": BACKEND, "OPTIONS": {"BACKOFF": {"base": 7, "jitter": 0}}}
    )
    assert handlers.add.using(backend="jobs").delay_after(1) == 7.0
    own = handlers.with_own_backoff.using(backend="jobs")
    assert own.delay_after(1) == 3.0


@pytest.mark.django_db
def test_is_undone_with_the_callers_transaction():
    with transaction.atomic():
        handlers.add.enqueue(1)
        transaction.set_rollback(True)
    assert not Job.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "instant",
    [LATER, datetime(2001, 1, 1, tzinfo=UTC), datetime(8999, 1, 1, tzinfo=UTC)],
)
def test_starts_no_earlier_than_asked(instant):
    result = handlers.add.using(run_after=instant).enqueue(1)
    assert Job.objects.get().run_at == instant
    assert handlers.add.get_result(result.id) == result


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_times_without_use_tz_come_back_naive(settings, zone):
    settings.USE_TZ = False
    settings.TIME_ZONE = zone
    connection.close()
    called = handlers.add.using(run_after=LATER.replace(tzinfo=None))
    result = called.enqueue(1)
    assert result.enqueued_at is not None
    assert result.enqueued_at.tzinfo is None
    assert handlers.add.get_result(result.id) == result


@pytest.mark.django_db
@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 1, 1, tzinfo=UTC),
        date(2026, 1, 1),
        UUID(int=1),
        Decimal("0.10"),
        b"\xff",
        {1},
        gettext_lazy("text"),
        Path("/"),
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_refuses_types_that_are_not_json(value):  # PAY-09
    for refused in (handlers.noop.enqueue, async_to_sync(handlers.noop.aenqueue)):
        with pytest.raises(TypeError, match="Unsupported type") as by_place:
            refused(value)
        assert "args[0]" in str(by_place.value)
        with pytest.raises(TypeError, match="Unsupported type") as by_name:
            refused(deep={"list": [1, value]})
        assert "kwargs.deep.list[1]" in str(by_name.value)
    assert not Job.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "value",
    ["ab\0cd", "\ud800", float("nan"), float("inf"), 10**5000, {"a\0": 1}, {0: "a"}],
    ids=range(7),
)
def test_refuses_values_that_jsonb_cannot_hold(value):  # PAY-01, PAY-07, PAY-11
    with transaction.atomic():
        with pytest.raises(InvalidJob):
            handlers.noop.enqueue(value)
        with pytest.raises(ValueError, match="kwargs"):
            handlers.noop.enqueue(note=[[value]])
        assert not Job.objects.exists()


def test_checks_again_at_enqueue(tasks_setting):
    tasks_setting(jobs={"BACKEND": BACKEND, "QUEUES": ["mail"]})
    called = handlers.add.using(backend="jobs", queue="mail")
    tasks_setting(jobs={"BACKEND": BACKEND, "QUEUES": ["other"]})
    for refused in (called.enqueue, async_to_sync(called.aenqueue)):
        with pytest.raises(InvalidTask, match="Queue 'mail' is not valid for backend"):
            refused(1)


# --- idempotency ----------------------------------------------------------------------


@pytest.mark.django_db
def test_the_same_key_gives_the_same_job(enqueued):
    called = handlers.add.using(idempotency_key="k")
    first, second = called.enqueue(1), called.enqueue(1)
    assert (first.replayed, second.replayed) == (False, True)
    assert first == second
    assert len(enqueued) == 1


@pytest.mark.django_db
def test_a_replay_shows_the_job_as_it_is():
    called = handlers.add.using(idempotency_key="k")
    called.enqueue(1)
    (attempt,) = Job.objects.claim("default", limit=1, worker="w", lease=30)
    Job.objects.ack(attempt, "5")
    again = called.using(priority=9).enqueue(1)
    assert (again.status, again.return_value) == (TaskResultStatus.SUCCESSFUL, 5)
    assert again.task.priority == 0


@pytest.mark.django_db
def test_the_same_key_with_another_call_is_a_conflict():
    handlers.add.using(idempotency_key="k").enqueue(1)
    with transaction.atomic(), pytest.raises(IdempotencyConflict, match="another task"):
        handlers.add.using(idempotency_key="k").enqueue(2)
    assert Job.objects.count() == 1


@pytest.mark.django_db
def test_a_unique_key_gives_the_live_job_whatever_it_runs():
    first = handlers.add.using(unique_key="k").enqueue(1)
    again = handlers.add.using(unique_key="k").enqueue(2)
    assert (again.id, again.args, again.replayed) == (first.id, [1], True)
    Job.objects.cancel(int(first.id))
    assert not handlers.add.using(unique_key="k").enqueue(2).replayed


# --- enqueue() ------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("given", [handlers.add, "tests.tasks.handlers.add"])
def test_enqueue_takes_a_task_or_its_name(given):
    result = enqueue(given, [1], {"second": 2}, queue="mail", delay=5)
    job = Job.objects.get(pk=result.job_id)
    assert (job.args, job.kwargs, job.queue) == ([1], {"second": 2}, "mail")


@pytest.mark.django_db
def test_an_argument_can_have_any_name():
    assert enqueue(handlers.noop, kwargs={"self": 1, "task": 2}).kwargs == {
        "self": 1,
        "task": 2,
    }


@pytest.mark.django_db
def test_enqueue_by_name_takes_djangos_tasks(
    tasks_setting, clean_registry, django_task
):
    tasks_setting(default={"BACKEND": DUMMY}, jobs={"BACKEND": BACKEND})
    registry.register(django_task(handlers.plain))
    assert enqueue("tests.tasks.handlers.plain", queue="default").backend == "jobs"


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (("os.system", ["ls"]), UnknownTask, "No task is registered as 'os.system'"),
        (("",), UnknownTask, "No task"),
        ((handlers.plain,), TypeError, "task: must be a task .* by @task"),
        ((None,), TypeError, "task: must be a task"),
        ((handlers.add, "abc"), TypeError, "args: must be a list or tuple, not str"),
        ((handlers.add, {"a": 1}), TypeError, "args: must be a list or tuple"),
        ((handlers.add, 5), TypeError, "args: must be a list or tuple"),
        ((handlers.add, [], [1]), TypeError, "kwargs: must be a dict"),
        ((handlers.add, [], {1: 2}), TypeError, "kwargs"),
    ],
)
def test_enqueue_refuses_what_is_no_call(given, error, words):
    with pytest.raises(error, match=words):
        enqueue(*given)


def test_enqueue_refuses_unknown_options():
    with pytest.raises(TypeError, match="Did you mean 'idempotency_key'"):
        enqueue(handlers.add, idempotency="k")  # type: ignore[call-overload]


# --- construction and checks ----------------------------------------------------------


def test_can_be_made_before_the_apps_are_loaded(monkeypatch):
    from django.apps import apps

    monkeypatch.setattr(apps, "models_ready", False)
    monkeypatch.setattr(apps, "apps_ready", False)
    backend = PgQueueBackend(alias="early", params={})
    assert backend.queues == {"default"}
    backend.validate_task(handlers.add)


def test_right_settings_pass_the_check(tasks_setting):
    tasks_setting(
        jobs={
            "BACKEND": BACKEND,
            "QUEUES": ["a", "b"],
            "OPTIONS": {
                "DATABASE": "default",
                "MAX_ATTEMPTS": 3,
                "BACKOFF": {"base": 1, "cap": 10},
                "TIMEOUT": timedelta(minutes=1),
            },
        }
    )
    assert task_backends["jobs"].check() == []


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"OPTIONS": {"max_attempts": 3}}, "no key 'max_attempts'. .* 'MAX_ATTEMPTS'"),
        ({"OPTIONS": {"TIMEOOT": 3}}, "Did you mean 'TIMEOUT'"),
        ({"OPTIONS": {5: 3}}, "Known: DATABASE, MAX_ATTEMPTS"),
        ({"OPTIONS": [1]}, "must be a dict, not list"),
        ({"OPTIONS": {"DATABASE": "nowhere"}}, "alias of DATABASES"),
        ({"OPTIONS": {"DATABASE": ["default"]}}, "alias of DATABASES"),
        ({"OPTIONS": {"MAX_ATTEMPTS": 0}}, "MAX_ATTEMPTS.*must be 1 to"),
        ({"OPTIONS": {"MAX_ATTEMPTS": True}}, "MAX_ATTEMPTS.*must be an int"),
        ({"OPTIONS": {"TIMEOUT": -1}}, "TIMEOUT"),
        ({"OPTIONS": {"BACKOFF": 5}}, "BACKOFF"),
        ({"OPTIONS": {"BACKOFF": {"bsae": 5}}}, "BACKOFF.*bsae"),
        ({"OPTIONS": {"BACKOFF": {"base": -5}}}, "BACKOFF.*base"),
        ({"OPTIONS": {"BACKOFF": {1: 5}}}, "BACKOFF"),
        ({"QUEUES": "default"}, "QUEUES.*must be a list of names, not 'default'"),
        ({"QUEUES": ["two words"]}, "QUEUES.*white space"),
        ({"QUEUES": [5]}, "QUEUES.*must be a str"),
    ],
)
def test_wrong_settings_fail_the_check(params, words):
    backend = PgQueueBackend(alias="jobs", params=params)
    (message,) = backend.check()
    assert isinstance(message, checks.Error)
    assert re.search(words, message.msg), message.msg
    assert "TASKS['jobs']" in message.msg


def test_wrong_options_are_an_error_at_enqueue():
    backend = PgQueueBackend(alias="jobs", params={"OPTIONS": {"TIMEOUT": -1}})
    with pytest.raises(InvalidTaskBackend, match=r"TASKS\['jobs'\]\['OPTIONS'\]"):
        backend.enqueue(handlers.add, (), {})


def test_the_check_names_a_missing_app(settings):
    settings.INSTALLED_APPS = [
        app for app in settings.INSTALLED_APPS if app != "pgqueue_django"
    ]
    (message,) = PgQueueBackend(alias="jobs", params={}).check()
    assert message.id == "pgqueue.E022"


@pytest.mark.django_db
def test_results_survive_copies():
    result = handlers.add.using(delay=5).enqueue(1)
    assert pickle.loads(pickle.dumps(result)) == result
    before = dataclasses.asdict(result)
    result.refresh()
    assert dataclasses.asdict(result) == before
    async_to_sync(result.arefresh)()
    assert dataclasses.asdict(result) == before
