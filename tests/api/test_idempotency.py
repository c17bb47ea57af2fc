"""POST /jobs with an idempotency key, or a unique one."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from pgqueue_django.models import Job
from tests import factories
from tests.api import tasks
from tests.api.conftest import ApiClient


@pytest.mark.django_db
def test_the_same_call_is_answered_with_the_first_job(api, client_of):
    """API-01: whoever sends it."""
    first = api.enqueue(idempotency_key="k", payload={"a": 1})
    for client in (api, client_of("add_job")):
        again = client.enqueue(idempotency_key="k", payload={"a": 1}, priority=50)
        assert again.status_code == 200
        assert again.json() == {**first.json(), "replayed": True}
        assert "Location" not in again.headers
    assert Job.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    "other", [{"payload": {"a": 2}}, {"payload": {}}, {"task": "tests.api.other"}]
)
def test_another_call_under_the_key_is_a_conflict_that_names_the_job(api, other):
    """API-01."""
    first = api.enqueue(idempotency_key="k", payload={"a": 1}, queue="q").json()
    fields = {"idempotency_key": "k", "payload": {"a": 1}, "queue": "q"}
    response = api.enqueue(**(fields | other))
    assert response.status_code == 422
    assert response.json()["code"] == "idempotency_conflict"
    assert response.json()["job_id"] == first["id"]


@pytest.mark.django_db
def test_a_key_is_of_one_queue_and_of_its_exact_characters(api):
    """API-01: NFC and NFD are two keys."""
    keys = [("q", "é"), ("q", "e\u0301"), ("r", "é"), ("q", "k" * 255)]
    ids = {api.enqueue(queue=q, idempotency_key=k).json()["id"] for q, k in keys}
    assert len(ids) == len(keys)


@pytest.mark.django_db
def test_a_key_is_free_again_once_its_job_is_pruned(api):
    """API-01."""
    first = api.enqueue(idempotency_key="k").json()["id"]
    Job.objects.cancel(first)
    factories.tick(first, finished_at=-10)
    assert api.enqueue(idempotency_key="k").json()["state"] == "cancelled"
    assert Job.objects.prune(older_than=5) == 1
    assert api.enqueue(idempotency_key="k").status_code == 201


@pytest.mark.django_db
@pytest.mark.parametrize(
    "payload",
    [
        '{"b": 2, "a": 1, "e": "é"}',
        '{"a": 1.0, "b": 2, "e": "\\u00e9"}',
        ' {"a" : 1e0,"b":2 , "e":"é"} ',
    ],
)
def test_the_same_values_written_otherwise_are_the_same_call(api, payload):
    """API-03: also between HTTP and Python."""
    job = tasks.echo.using(idempotency_key="k").enqueue(a=1, b=2, e="é")
    raw = f'{{"task":"tests.api.echo","idempotency_key":"k","payload":{payload}}}'
    response = api.send(raw.encode())
    assert (response.status_code, response.json()["id"]) == (200, job.job_id)


@pytest.mark.django_db
def test_a_field_left_out_is_its_default(api):
    """API-03."""
    first = api.enqueue(idempotency_key="k").json()["id"]
    explicit = {"payload": {}, "queue": "api", "priority": 7, "max_attempts": 3}
    again = api.enqueue(idempotency_key="k", **explicit)
    assert (again.status_code, again.json()["id"]) == (200, first)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_racing_callers_of_one_call_get_one_job(api, connect, isolation):
    """API-13, CNC-06."""
    token = api.defaults["HTTP_AUTHORIZATION"]

    def send(number):
        client = ApiClient(headers={"authorization": token})
        with connections["default"].cursor() as cursor:
            cursor.execute(f"SET default_transaction_isolation = '{isolation}'")
        body = json.dumps(
            {
                "task": "tests.api.echo",
                "idempotency_key": "k",
                "payload": {"b": number % 2},
            }
        )
        try:
            return number % 2, client.send(body)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(send, range(48)))
    statuses: dict[int, list[int]] = {0: [], 1: []}
    for which, response in answers:
        statuses[which].append(response.status_code)
    (winner,) = [which for which, seen in statuses.items() if 201 in seen]
    assert sorted(set(statuses[winner])) in ([200, 201], [201])
    assert statuses[winner].count(201) == 1
    assert set(statuses[1 - winner]) == {422}
    assert Job.objects.count() == 1


@pytest.mark.django_db
def test_a_unique_key_is_answered_with_the_live_job(api):
    first = api.enqueue(unique_key="k", payload={"a": 1})
    again = api.enqueue(unique_key="k", payload={"a": 2})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == {**first.json(), "replayed": True}
    Job.objects.cancel(first.json()["id"])
    assert api.enqueue(unique_key="k").status_code == 201
