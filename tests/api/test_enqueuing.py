"""POST /jobs."""

import json

import pytest
from django.db import connection

from pgqueue_django.models import Job
from tests import factories
from tests.api import tasks

pytestmark = pytest.mark.django_db


def job_of(response):
    return Job.objects.get(pk=response.json()["id"])


def test_answers_with_the_new_job_and_where_it_is(api):
    response = api.enqueue(payload={"a": 1})
    body = response.json()
    assert response.status_code == 201
    assert response.headers["Location"] == f"/api/jobs/{body['id']}"
    assert body["replayed"] is False
    assert body["state"] == "queued"
    assert body["attempts"] == 0
    assert body["result"] is None
    assert body["last_error"] is None
    assert api.get(response.headers["Location"]).json().items() < body.items()


def test_takes_defaults_from_the_tasks_own_options_as_python_does(api):
    job = job_of(api.enqueue(payload={"a": 1}))
    same = Job.objects.get(pk=tasks.echo.enqueue(a=1).job_id)
    for name in ("queue", "priority", "max_attempts", "timeout_seconds", "task"):
        assert getattr(job, name) == getattr(same, name), name
    assert (job.args, job.kwargs) == (same.args, same.kwargs) == ([], {"a": 1})
    assert (job.queue, job.priority, job.max_attempts) == ("api", 7, 3)
    assert job.timeout_seconds == 20


def test_fields_replace_the_tasks_options(api):
    fields = {"queue": "q", "priority": -3, "max_attempts": 9, "idempotency_key": "k"}
    fields["unique_key"] = "u"
    job = job_of(api.enqueue(**fields))
    assert {name: getattr(job, name) for name in fields} == fields


def test_payload_names_may_be_those_of_parameters_on_the_way(api):
    payload = {"self": 1, "task": 2, "args": 3, "kwargs": 4, "queue": 5}
    assert job_of(api.enqueue(payload=payload)).kwargs == payload


def test_a_delay_counts_from_the_databases_now(api):
    response = api.enqueue(delay_seconds=90.5)
    assert response.json()["state"] == "scheduled"
    ahead = factories.seconds_from_now(response.json()["id"], "run_at")
    assert ahead == pytest.approx(90.5, abs=5)


@pytest.mark.parametrize(
    "text",
    [
        "2040-01-31T12:00:00Z",
        "2040-01-31t12:00z",
        "2040-01-31 14:00:00.000000000+02:00",
        "2040-01-31T17:30:00+0530",
    ],
)
def test_run_at_is_an_instant_with_an_offset(api, text):
    assert api.enqueue(run_at=text).json()["run_at"] == "2040-01-31T12:00:00.000000Z"


def test_a_run_at_in_the_past_means_now(api):
    assert api.enqueue(run_at="1999-12-31T23:59:59Z").json()["state"] == "queued"


@pytest.mark.parametrize("use_tz", [True, False])
def test_instants_are_in_utc_whatever_use_tz_is(api, settings, use_tz):
    """TIM-07."""
    settings.USE_TZ = use_tz
    settings.TIME_ZONE = "Asia/Shanghai"
    body = api.enqueue(run_at="2040-01-31T12:00:00+08:00").json()
    assert body["run_at"] == "2040-01-31T04:00:00.000000Z"


@pytest.mark.parametrize(
    "name", ["delay_seconds", "run_at", "idempotency_key", "unique_key"]
)
def test_null_means_none_where_there_can_be_none(api, name):
    assert api.enqueue(**{name: None}).status_code == 201


def test_ids_are_good_past_two_to_the_thirty_first(api):
    """PRF-12."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE pgqueue_job ALTER id RESTART 9000000000000000000")
    id_ = api.enqueue().json()["id"]
    assert id_ == 9_000_000_000_000_000_000
    assert api.get(f"/api/jobs/{id_}").json()["id"] == id_
    assert api.send("", f"/api/jobs/{id_}/cancel").status_code == 200


def test_unicode_arrives_as_it_was_sent(api):
    payload = {"note": "żółć 🎉", "e": "é"}
    escaped = json.dumps({"task": "tests.api.echo", "payload": payload})
    plain = json.dumps(
        {"task": "tests.api.echo", "payload": payload}, ensure_ascii=False
    )
    for body in (escaped, plain.encode()):
        assert job_of(api.send(body)).kwargs == payload
