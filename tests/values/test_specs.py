"""What a job may be asked to be."""

import enum
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgqueue_django import limits, specs
from pgqueue_django.exceptions import InvalidJob, InvalidJobType
from pgqueue_django.specs import JobSpec

# The naive ones are made here, since all others in this project are aware.
NAIVE = partial(datetime, tzinfo=None)
YEAR_10_000_SECONDS = 253_402_300_800


class Queue(enum.StrEnum):
    MAIL = "mail"


class Level(enum.IntEnum):
    HIGH = 50


def build(**values):
    return JobSpec.build(**{"task": "shop.send", **values})


def refused(**values):
    with pytest.raises(InvalidJob) as caught:
        build(**values)
    return caught.value


def test_needs_no_more_than_a_task():
    assert build() == JobSpec(
        task="shop.send",
        args="[]",
        kwargs="{}",
        queue="default",
        priority=0,
        run_at=None,
        delay=0.0,
        max_attempts=5,
        timeout_seconds=None,
        idempotency_key=None,
    )


def test_keeps_all_that_it_is_given():
    run_at = datetime(2026, 3, 8, 12, tzinfo=ZoneInfo("America/New_York"))
    spec = build(
        args=(1, "ä"),
        kwargs={"order_id": 42},
        queue="mail",
        priority=-100,
        run_at=run_at,
        max_attempts=10_000,
        timeout=timedelta(minutes=1),
        idempotency_key="order 42",
    )
    assert spec == JobSpec(
        task="shop.send",
        args='[1,"ä"]',
        kwargs='{"order_id":42}',
        queue="mail",
        priority=-100,
        run_at=run_at,
        delay=0.0,
        max_attempts=10_000,
        timeout_seconds=60.0,
        idempotency_key="order 42",
    )


def test_holds_plain_types_only():
    spec = build(
        task=Queue.MAIL,
        queue=Queue.MAIL,
        idempotency_key=Queue.MAIL,
        priority=Level.HIGH,
    )
    held = (spec.task, spec.queue, spec.idempotency_key, spec.priority)
    assert held == ("mail", "mail", "mail", 50)
    assert [type(value) for value in held] == [str, str, str, int]


# Texts


@pytest.mark.parametrize("field", ["task", "queue", "idempotency_key", "unique_key"])
@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("", "empty"),
        ("a\0b", "NUL|printable"),
        ("a\ud800b", "surrogate|printable"),
        ("a\nb", "control|printable"),
        ("a\x7fb", "control|printable"),
        ("a\x85b", "control|printable"),
        (" a", "white space"),
        ("a ", "white space"),
        ("a\n", "white space"),
        ("\u2003a", "white space"),
        ("x" * 256, "at most"),
        ("x" * 30_000_000, "at most"),
    ],
    ids=lambda value: repr(value[:10]),
)
def test_refuses_unstorable_names_by_their_field(field, value, what):
    """PAY-01: in task name, queue name and idempotency key."""
    error = refused(**{field: value})
    assert error.field == field
    assert any(part in str(error) for part in what.split("|"))
    assert len(str(error).encode()) < 200


@pytest.mark.parametrize("field", ["task", "queue", "idempotency_key", "unique_key"])
@pytest.mark.parametrize("value", [5, b"a", True, ["a"], 1.5])
def test_refuses_names_that_are_no_text(field, value):
    error = refused(**{field: value})
    assert isinstance(error, InvalidJobType)
    assert error.field == field


def test_there_is_no_job_without_a_task():
    assert isinstance(refused(task=None), InvalidJobType)


@pytest.mark.parametrize(
    ("clean", "most"),
    [
        (specs.clean_task_name, limits.TASK_CHARS),
        (specs.clean_queue, limits.QUEUE_CHARS),
        (specs.clean_idempotency_key, limits.IDEMPOTENCY_KEY_CHARS),
        (specs.clean_unique_key, limits.UNIQUE_KEY_CHARS),
    ],
)
def test_names_are_limited_in_characters_not_bytes(clean, most):
    assert clean("🐘" * most) == "🐘" * most
    with pytest.raises(InvalidJob, match=f"at most {most} characters"):
        clean("x" * (most + 1))


@pytest.mark.parametrize("queue", ["default", "mail.eu-1", "a/b:c", "größe", "队列"])
def test_a_queue_may_have_any_printable_characters(queue):
    assert specs.clean_queue(queue) == queue


@pytest.mark.parametrize("queue", ["a b", "a\u00a0b", "a\u200bb", "a\u202eb"])
def test_a_queue_has_no_white_space_and_nothing_invisible(queue):
    with pytest.raises(InvalidJob, match="printable"):
        specs.clean_queue(queue)


@pytest.mark.parametrize("key", ["order 42", "👩\u200d💻", "a\u00a0b"])
def test_a_key_is_any_text_without_control_characters(key):
    assert specs.clean_idempotency_key(key) == key


@given(st.text(st.characters(), max_size=300))
def test_any_text_is_storable_or_refused(text):
    try:
        cleaned = specs.clean_idempotency_key(text)
    except InvalidJob:
        return
    assert cleaned == text
    assert "\0" not in cleaned.encode().decode()


# Numbers


@pytest.mark.parametrize(
    ("field", "low", "high"), [("priority", -100, 100), ("max_attempts", 1, 10_000)]
)
def test_whole_numbers_have_bounds(field, low, high):
    assert getattr(build(**{field: low}), field) == low
    assert getattr(build(**{field: high}), field) == high
    for value in (low - 1, high + 1, 10**5000, -(10**5000)):
        error = refused(**{field: value})
        assert error.field == field
        assert f"{low:,} to {high:,}" in str(error)


@pytest.mark.parametrize("field", ["priority", "max_attempts"])
@pytest.mark.parametrize("value", [True, 5.0, "5", None, Decimal(5), math.nan])
def test_whole_numbers_are_ints(field, value):
    error = refused(**{field: value})
    assert isinstance(error, InvalidJobType)
    assert error.field == field


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0),
        (10, 10),
        (0.25, 0.25),
        (timedelta(hours=1), 3600),
        (limits.DELAY_SECONDS_MAX, limits.DELAY_SECONDS_MAX),
    ],
)
def test_a_delay_is_seconds_or_a_timedelta(value, seconds):
    """TIM-02: a delay stays relative."""
    spec = build(delay=value)
    assert (spec.delay, spec.run_at) == (seconds, None)
    assert type(spec.delay) is float


@pytest.mark.parametrize(
    "value",
    [
        -1,
        -0.001,
        1e18,
        10**400,
        math.inf,
        -math.inf,
        math.nan,
        timedelta.max,
        timedelta(days=-4e8),
        timedelta(microseconds=-1),
    ],
)
def test_refuses_delays_out_of_bounds(value):
    """TIM-11: ValueError with the field."""
    error = refused(delay=value)
    assert error.field == "delay"
    assert "0 to" in str(error)


@pytest.mark.parametrize(
    "value", [1, 0.5, timedelta(seconds=1), limits.TIMEOUT_SECONDS_MAX]
)
def test_a_timeout_is_seconds_or_a_timedelta(value):
    assert type(build(timeout=value).timeout_seconds) is float


@pytest.mark.parametrize(
    "value", [0, -1, 1e18, math.nan, math.inf, timedelta(0), timedelta.max]
)
def test_refuses_timeouts_out_of_bounds(value):
    error = refused(timeout=value)
    assert error.field == "timeout"
    assert "more than 0" in str(error)


@pytest.mark.parametrize("field", ["delay", "timeout"])
@pytest.mark.parametrize("value", [True, "5", Decimal(5), [5], date(2026, 1, 1)])
def test_spans_have_one_of_two_types(field, value):
    error = refused(**{field: value})
    assert isinstance(error, InvalidJobType)
    assert error.field == field


# Instants


def test_an_aware_start_is_the_same_instant_in_utc():
    """PAY-09 and TIM-07: an aware run_at always works."""
    local = datetime(2026, 3, 8, 12, tzinfo=ZoneInfo("America/New_York"))
    spec = build(run_at=local)
    assert spec.run_at == local
    assert spec.run_at.tzinfo is UTC


def test_a_naive_start_is_refused_with_time_zones_on(settings):
    settings.USE_TZ = True
    error = refused(run_at=NAIVE(2026, 1, 1))
    assert error.field == "run_at"
    assert "has no time zone" in str(error)


def test_a_naive_start_is_local_with_time_zones_off(settings):
    """TIM-07: one documented meaning."""
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Shanghai"
    assert build(run_at=NAIVE(2026, 1, 1, 8)).run_at == datetime(2026, 1, 1, tzinfo=UTC)
    aware = datetime(2026, 1, 1, 8, tzinfo=UTC)
    assert build(run_at=aware).run_at == aware


@pytest.mark.parametrize(
    ("naive", "utc"),
    [
        (NAIVE(2026, 3, 8, 2, 30), datetime(2026, 3, 8, 7, 30, tzinfo=UTC)),
        (NAIVE(2026, 11, 1, 1, 30), datetime(2026, 11, 1, 5, 30, tzinfo=UTC)),
        (
            NAIVE(2026, 11, 1, 1, 30, fold=1),
            datetime(2026, 11, 1, 6, 30, tzinfo=UTC),
        ),
    ],
)
def test_a_naive_start_in_a_gap_or_an_overlap_has_one_meaning(settings, naive, utc):
    settings.USE_TZ = False
    settings.TIME_ZONE = "America/New_York"
    assert build(run_at=naive).run_at == utc


@pytest.mark.parametrize("hours", [-23, 0, 23])
@pytest.mark.parametrize(
    "instant",
    [NAIVE(1, 1, 1), NAIVE(9999, 12, 31), NAIVE(1969, 12, 30), NAIVE(9000, 1, 3)],
)
def test_refuses_starts_out_of_bounds(settings, instant, hours):
    """TIM-11: no arithmetic overflows, at any offset."""
    offset = timezone(timedelta(hours=hours))
    assert refused(run_at=instant.replace(tzinfo=offset)).field == "run_at"
    settings.USE_TZ = False
    for settings.TIME_ZONE in ("UTC", "Asia/Shanghai", "America/New_York"):
        assert refused(run_at=instant).field == "run_at"


def test_takes_starts_up_to_the_bounds():
    for instant in (
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(8999, 12, 31, tzinfo=UTC),
    ):
        assert build(run_at=instant).run_at == instant


@pytest.mark.parametrize(
    "value",
    [
        date(2026, 1, 1),
        "2026-01-01T00:00:00Z",
        1_692_352_800_000,
        YEAR_10_000_SECONDS,
        True,
        1.5,
    ],
)
def test_a_start_is_a_datetime(value):
    """TIM-11: neither text nor a number is one."""
    error = refused(run_at=value)
    assert isinstance(error, InvalidJobType)
    assert error.field == "run_at"


def test_start_and_delay_exclude_each_other():
    error = refused(run_at=datetime(2026, 1, 1, tzinfo=UTC), delay=0)
    assert error.field == "delay"


# The rest


def test_arguments_are_checked_by_their_path():
    assert refused(args=[1, {"a": object()}]).field == "args[1].a"
    assert refused(kwargs={"note": "ab\0cd"}).field == "kwargs.note"
    assert refused(args="abc").field == "args"
    assert refused(kwargs=[]).field == "kwargs"


def test_a_checker_names_the_field_that_it_is_told():
    with pytest.raises(InvalidJob, match=r"^queue_name: "):
        specs.clean_queue("", field="queue_name")
    with pytest.raises(InvalidJob, match=r"^run_after: "):
        specs.clean_run_at(None, field="run_after")


@given(st.datetimes(timezones=st.timezones()))
def test_any_aware_datetime_is_kept_or_refused(value):
    try:
        assert specs.clean_run_at(value) == value.astimezone(UTC)
    except (InvalidJob, OverflowError):
        assert not 1970 <= value.year <= 8999
