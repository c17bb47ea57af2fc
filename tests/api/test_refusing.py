"""Requests that are refused: with 400 and the names of all wrong fields, never 500."""

import gzip
import json

import pytest

from pgqueue_django import limits
from pgqueue_django.models import Job
from tests.api.conftest import errors_of

pytestmark = pytest.mark.django_db

ECHO = "tests.api.echo"

WRONG: dict[str, list[object]] = {
    "priority": [True, "5", 5.0, 5.5, 2**31, -101, None, [], {}],
    "queue": [1, [], "", " ", "q" * 300, "a b", "a\0b", None],
    "max_attempts": [0, -1, 2**40, True, "3", 3.0, None],
    "idempotency_key": ["", "k" * 256, "k\0", "k ", 7, "\ud800"],
    "unique_key": ["", "k" * 256, "k\0", "k ", 7, "\ud800"],
    "payload": [[], "x", 1, None, False],
    "delay_seconds": [-1, 1e18, "5", True, []],
}


@pytest.fixture(autouse=True)
def nothing_is_written(db):
    yield
    assert not Job.objects.exists()


def test_names_every_wrong_and_unknown_field_at_once(api):
    """API-08."""
    errors = api.refused(
        priorty=5, queue=" ", priority="5", max_attempts=0, payload=[], run_at=1
    )
    assert set(errors) == {
        "priorty", "queue", "priority", "max_attempts", "payload", "run_at",
    }  # fmt: skip
    assert "did you mean 'priority'" in errors["priorty"][0]


@pytest.mark.parametrize("name", ["state", "attempts", "lease_token", "id", "result"])
def test_protocol_fields_cannot_be_written(api, name):
    """API-08."""
    assert set(api.refused(**{name: 1})) == {name}


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("tests.api.ecco", "did you mean 'tests.api.echo'"),
        ("os.system", "no task is registered as 'os.system'"),
        ("", "must not be empty"),
        (None, "must be a string, not null"),
        (5, "must be a string, not a number"),
        ("x" * 201, "at most 200 characters"),
        ("a\0b", "NUL"),
    ],
)
def test_an_unknown_task_is_refused_with_near_names(api, task, words):
    assert words in api.refused(task=task)["task"][0]


def test_a_task_is_required(api):
    assert set(errors_of(api.send({}))) == {"task"}
    assert set(errors_of(api.send(""))) == {"task"}


@pytest.mark.parametrize(
    "body",
    ["[]", "1", "null", '"x"', "true", "NaN", "", " ", "{", "{} {}", b"\xff",
     b"\xef\xbb\xbf{}"],
)  # fmt: skip
def test_a_body_that_is_no_json_object_is_refused(api, body):
    """API-09."""
    wrong = errors_of(api.send(body))
    assert set(wrong) == ({"body"} if body else {"task"})


@pytest.mark.parametrize(
    "raw",
    [
        '{"task": "tests.api.echo", "idempotency_key": "k", "payload": {"a":1, "a":2}}',
        '{"task": "x", "task": "tests.api.echo", "idempotency_key": "k"}',
    ],
)
def test_a_key_that_is_there_twice_is_refused(api, raw):
    """PAY-17."""
    assert "twice" in errors_of(api.send(raw))["body"][0]


@pytest.mark.parametrize(
    ("field", "value"),
    [(name, value) for name, values in WRONG.items() for value in values],
)
def test_nothing_is_converted(api, field, value):
    """API-01, API-09, TIM-11."""
    assert set(api.refused(**{field: value})) == {field}


@pytest.mark.parametrize("number", ["1e3", "5.0", "1E400", "-Infinity", "9" * 1_001])
def test_numbers_of_another_form_are_no_priority(api, number):
    """API-09, PAY-07."""
    raw = f'{{"task": "{ECHO}", "priority": {number}}}'
    assert errors_of(api.send(raw))


@pytest.mark.parametrize(
    "value",
    [
        "10000-01-01T00:00:00Z", "0000-01-01", "0000-01-01T00:00:00Z", 253402300800,
        116137514678616060, 1692352800000, "9999-12-31T23:59:59-14:00", "", "now",
        "2030-02-30T00:00:00Z", "2030-01-01T25:00:00Z", "2030-01-01T00:00:00+99:00",
        "infinity", "2030-W01-1T00:00:00Z", "٢٠٣٠-01-01T00:00:00Z", True,
        "2030-01-01T00:00:00Z\n",
        "2030-01-01T00:00:60Z", "1969-12-31T23:59:59Z",
    ],
)  # fmt: skip
def test_an_instant_that_is_none_or_out_of_bounds_is_refused(api, value):
    """TIM-11."""
    assert set(api.refused(run_at=value)) == {"run_at"}


@pytest.mark.parametrize("value", ["2030-01-01T00:00:00", "2030-01-01 00:00"])
def test_an_instant_without_an_offset_is_refused(api, value):
    """TIM-07."""
    assert "has no offset; append Z" in api.refused(run_at=value)["run_at"][0]


def test_run_at_and_a_delay_exclude_each_other(api):
    errors = api.refused(run_at="2030-01-01T00:00:00Z", delay_seconds=1)
    assert errors == {"delay_seconds": ["cannot be given together with run_at"]}


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"note": "ab\0cd"}, "payload.note"),
        ({"a\0": 1}, "payload"),
        ({"a": [[{"b": "\0"}]]}, "payload.a[0][0].b"),
        ({"s": "\ud800"}, "payload.s"),
        ({"n": 10**999, "m": [10**1000 - 1, "\0"]}, "payload.m[1]"),
    ],
)
def test_text_that_postgresql_cannot_store_is_named_by_its_path(api, payload, path):
    """PAY-01."""
    (found,) = api.refused(payload=payload)
    assert found.startswith(path)


def test_a_number_of_5000_digits_is_refused(api):
    """PAY-07."""
    raw = f'{{"task": "{ECHO}", "payload": {{"n": 1{"0" * 5_000}}}}}'
    assert "digits" in errors_of(api.send(raw))["body"][0]


@pytest.mark.parametrize("where", ["body", "payload"])
@pytest.mark.parametrize("depth", [101, 5_000, 20_000])
def test_deep_nesting_is_refused(api, where, depth):
    """PAY-14."""
    deep = "[" * depth + "]" * depth
    whole = f'{{"task": "{ECHO}", "payload": {{"a": {deep}}}}}'
    raw = deep if where == "body" else whole
    assert "nested deeper" in errors_of(api.send(raw))["body"][0]


def test_arguments_over_their_limit_are_refused(api):
    payload = {"blob": "x" * limits.ARGUMENTS_BYTES}
    assert "takes more than" in api.refused(payload=payload)["payload"][0]


def test_a_body_over_the_limit_is_refused_unread(api, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000
    response = api.enqueue(payload={"blob": "x" * 1_000})
    assert response.status_code == 413
    assert response.json()["code"] == "too_large"


def test_the_body_is_bounded_also_where_django_does_not(api, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = None
    response = api.send(" " * (4 * limits.ARGUMENTS_BYTES + 1))
    assert response.status_code == 413


@pytest.mark.parametrize(
    ("body", "content_type", "headers"),
    [
        (b"task=x", "application/x-www-form-urlencoded", {}),
        (b"--b--", "multipart/form-data; boundary=b", {}),
        (b"{}", "text/plain", {}),
        (b"{}", "application/json5", {}),
        (b"{}", "application/json; charset=utf-16", {}),
        (b"{}", "", {}),
        (
            gzip.compress(b"{}", mtime=0),
            "application/json",
            {"content-encoding": "gzip"},
        ),
    ],
)
def test_another_media_type_is_refused(api, body, content_type, headers):
    """API-09."""
    response = api.send(body, content_type=content_type, **headers)
    assert response.status_code == 415
    assert response.json()["code"] == "unsupported_media_type"


def test_a_body_in_chunks_is_refused(api):
    response = api.send("", **{"transfer-encoding": "chunked"})
    assert response.status_code == 411


def test_the_media_type_may_name_utf_8(api):
    raw = json.dumps({"task": "nobody"})
    response = api.send(raw, content_type="Application/JSON; charset=UTF-8")
    assert set(errors_of(response)) == {"task"}


def test_a_queue_that_the_backend_does_not_have_is_refused(api, settings):
    backend = {"BACKEND": "pgqueue_django.backends.PgQueueBackend", "QUEUES": ["api"]}
    settings.TASKS = {"pgqueue": backend}
    assert "'nowhere'" in api.refused(queue="nowhere")["queue"][0]


def test_names_of_unknown_fields_are_shown_cut_and_clean(api):
    errors = api.refused(**{"\ud800": 1, "x" * 10_000: 1, "<script>": 1})
    assert "\ufffd" in errors
    assert max(map(len, errors)) <= 100


def test_a_million_unknown_fields_are_not_all_named(api):
    body = {f"f{n}": n for n in range(30_000)} | {"task": ECHO}
    errors = errors_of(api.send(body))
    assert len(errors) == 21
    assert errors["…"] == ["29,980 more unknown fields"]


def test_the_callers_transaction_stays_usable(api):
    """PAY-01."""
    api.refused(payload={"note": "\0"})
    assert Job.objects.count() == 0
