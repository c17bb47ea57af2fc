from datetime import UTC, datetime, timedelta

import pytest

from pgqueue_django.compat import InvalidTask, InvalidTaskBackend
from tests.tasks import handlers

LATER = datetime(2030, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("priority", 1),
        ("queue_name", "other"),
        ("run_after", LATER),
        ("idempotency_key", "key"),
        ("unique_key", "key"),
        ("max_attempts", 9),
        ("timeout", 1.5),
        ("delay", 3.0),
    ],
)
def test_changes_a_copy(option, value):
    before = getattr(handlers.add, option)
    assert getattr(handlers.add.using(**{option: value}), option) == value
    assert getattr(handlers.add, option) == before


def test_without_options_gives_an_equal_task():
    copy = handlers.add.using()
    assert copy == handlers.add
    assert copy is not handlers.add


def test_none_keeps_what_there_is():
    assert handlers.with_every_option.using(priority=None, queue=None).priority == 7


def test_chains():
    chained = handlers.add.using(run_after=LATER).using(priority=10)
    assert (chained.run_after, chained.priority) == (LATER, 10)


def test_queue_and_run_at_are_other_words():
    called = handlers.add.using(queue="other", run_at=LATER)
    assert (called.queue_name, called.run_after) == ("other", LATER)


def test_a_delay_can_be_a_timedelta():
    assert handlers.add.using(delay=timedelta(minutes=1)).delay == 60.0


def test_a_delay_of_zero_is_a_delay():
    assert handlers.add.using(run_at=LATER).using(delay=0).run_after is None


def test_delay_and_run_at_replace_each_other():
    delayed = handlers.add.using(run_at=LATER).using(delay=5)
    assert (delayed.delay, delayed.run_after) == (5.0, None)
    dated = delayed.using(run_at=LATER)
    assert (dated.delay, dated.run_after) == (None, LATER)


def test_the_class_stays():
    assert type(handlers.add.using(priority=1)) is type(handlers.add)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queue": "a", "queue_name": "b"}, "queue_name and queue exclude each other"),
        ({"run_at": LATER, "run_after": LATER}, "run_after and run_at exclude"),
        ({"run_at": LATER, "delay": 0}, "run_at and delay exclude"),
        ({"run_after": LATER, "delay": 5}, "run_after and delay exclude"),
    ],
)
def test_refuses_options_that_say_the_same(options, words):
    with pytest.raises(TypeError, match=words):
        handlers.add.using(**options)


@pytest.mark.parametrize(
    ("option", "nearest"),
    [
        ("idempotencykey", "idempotency_key"),
        ("run_afterr", "run_after"),
        ("countdelay", "delay"),
        ("que", "queue"),
    ],
)
def test_an_unknown_option_gets_a_suggestion(option, nearest):
    with pytest.raises(TypeError, match=rf"using\(\) has no option .*{nearest!r}"):
        handlers.add.using(**{option: 1})  # type: ignore[arg-type]


def test_options_of_the_task_are_not_for_a_call():
    with pytest.raises(TypeError, match=r"using\(\) has no option 'backoff'"):
        handlers.add.using(backoff=None)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("priority", 101, "priority must be a whole number"),
        ("priority", 3.1, "priority must be a whole number"),
        ("queue", "", "queue: must not be empty"),
        ("queue", "a" * 101, "queue: must have at most 100 characters"),
        ("run_at", "2030-01-01", "run_after: must be a datetime"),
        ("run_at", LATER.date(), "run_after: must be a datetime"),
        ("run_at", LATER.replace(year=9999), "run_after: must be from 1970"),
        ("run_at", LATER.replace(year=1), "run_after: must be from 1970"),
        ("delay", -1, "delay: "),
        ("delay", float("nan"), "delay: "),
        ("delay", "5", "delay: "),
        ("delay", True, "delay: "),
        ("delay", 1e300, "delay: "),
        ("idempotency_key", "", "idempotency_key: must not be empty"),
        ("unique_key", "", "unique_key: must not be empty"),
        ("unique_key", "k" * 256, "unique_key: must have at most 255"),
        ("idempotency_key", "a\0", "idempotency_key: .*NUL"),
        ("idempotency_key", "\ud800", "idempotency_key: .*surrogate"),
        ("idempotency_key", 5, "idempotency_key: must be a str"),
        ("idempotency_key", "k" * 256, "idempotency_key: must have at most 255"),
        ("max_attempts", 0, "max_attempts: "),
        ("timeout", 0, "timeout: "),
    ],
)
def test_refuses_wrong_values_by_the_name_of_the_option(option, value, words):
    with pytest.raises(InvalidTask, match=words):
        handlers.add.using(**{option: value})


def test_a_naive_time_is_refused_under_use_tz():
    with pytest.raises(InvalidTask, match=r"run_after must be an aware datetime\."):
        handlers.add.using(run_after=LATER.replace(tzinfo=None))


def test_naive_and_aware_times_are_taken_without_use_tz(settings):
    settings.USE_TZ = False
    naive = LATER.replace(tzinfo=None)
    assert handlers.add.using(run_after=naive).run_after == naive
    assert handlers.add.using(run_after=LATER).run_after == LATER


def test_an_unknown_backend_is_refused():
    with pytest.raises(
        InvalidTaskBackend, match="The connection 'unknown' doesn't exist"
    ):
        handlers.add.using(backend="unknown")


def test_a_backend_that_cannot_be_imported_is_refused(tasks_setting):
    tasks_setting(missing={"BACKEND": "does.not.exist"})
    with pytest.raises(InvalidTaskBackend, match="Could not find backend"):
        handlers.add.using(backend="missing")
