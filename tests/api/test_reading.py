"""GET /jobs/{id}."""

import pytest
from django.db import connection

from pgqueue_django.models import Job
from tests import factories

pytestmark = pytest.mark.django_db


def read(api, id_):
    response = api.get(f"/api/jobs/{id_}")
    assert response.status_code == 200, response.content
    return response.json()


def put(id_, **columns):
    """Write columns as raw SQL can."""
    with connection.cursor() as cursor:
        for name, expression in columns.items():
            cursor.execute(
                f"UPDATE pgqueue_job SET {name} = {expression} WHERE id = %s", [id_]
            )


def test_shows_how_a_job_stands(api):
    job = factories.succeeded(priority=3)
    shown = read(api, job.id)
    assert shown["state"] == "succeeded"
    assert shown["attempts"] == 1
    assert shown["result"] == "done"
    assert shown["result_omitted"] is None
    assert shown["priority"] == 3
    for name in ("run_at", "enqueued_at", "started_at", "claimed_at", "finished_at"):
        assert shown[name].endswith("Z"), name
    assert set(shown).isdisjoint({"lease_token", "worker", "errors", "payload"})


def test_shows_the_newest_error_without_its_traceback(api):
    shown = read(api, factories.dead().id)
    assert shown["state"] == "dead"
    assert shown["last_error"] == {
        "attempt": 1,
        "at": shown["last_error"]["at"],
        "exception": "tests.Broken",
        "message": "it broke",
    }


def test_shows_what_the_handler_has_said(api):
    attempt = factories.claimed()
    nothing = read(api, attempt.id)
    assert (nothing["progress"], nothing["metadata"]) == (None, {})

    said = '{"file": "a.csv", "_progress": {"done": 1, "total": 2, "note": "half"}}'
    Job.objects.save_metadata(attempt, said, stamped=["_progress"])
    shown = read(api, attempt.id)
    assert shown["metadata"] == {"file": "a.csv"}
    assert shown["progress"].pop("at")
    assert shown["progress"] == {"done": 1, "total": 2, "note": "half"}


@pytest.mark.parametrize(
    "odd",
    [
        "'[1]'",
        "jsonb_build_object('a', repeat('x', 70000))",
        "('{\"a\": 1' || repeat('0', 5000) || '}')::jsonb",
        "(repeat('[', 6000) || repeat(']', 6000))::jsonb",
    ],
)
def test_metadata_that_the_queue_would_not_store_is_left_out(api, odd):
    job = factories.queued()
    put(job.id, metadata=odd)
    shown = read(api, job.id)
    assert (shown["progress"], shown["metadata"]) == (None, {})


def test_takes_one_query_for_the_job(api, django_assert_num_queries):
    job = factories.queued()
    # The token with its user, the user's own permissions, those of groups, the job.
    with django_assert_num_queries(4):
        read(api, job.id)


@pytest.mark.parametrize(
    "id_",
    ["0", "-1", "007", "9223372036854775808", "9" * 5_000, "abc", "1.0", "%00", "٣"],
)
def test_an_id_that_no_job_can_have_is_not_found(api, id_):
    for response in (
        api.get(f"/api/jobs/{id_}"),
        api.send("", f"/api/jobs/{id_}/cancel"),
    ):
        assert response.status_code == 404
        assert response.json()["code"] == "not_found"


def test_a_job_that_is_not_there_is_not_found(api):
    assert api.get("/api/jobs/9223372036854775807").status_code == 404


def test_unknown_query_parameters_are_refused(api):
    """API-08."""
    response = api.get(f"/api/jobs/{factories.queued().id}?stat=failed&format=xml")
    assert response.status_code == 400
    assert set(response.json()["errors"]) == {"stat", "format"}


@pytest.mark.parametrize("method", ["put", "patch", "delete", "post", "options"])
def test_a_job_cannot_be_written_to(api, method):
    """API-08."""
    job = factories.queued()
    body = '{"state": "succeeded"}'
    response = getattr(api, method)(
        f"/api/jobs/{job.id}", body, content_type="application/json"
    )
    assert response.status_code == 405
    assert response.json()["code"] == "method_not_allowed"
    assert factories.get(job.id).state == "queued"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ("('[1' || repeat('0', 5000) || ']')::jsonb", "digits"),
        ("(repeat('[', 6000) || repeat(']', 6000))::jsonb", "nested deeper"),
        ("to_jsonb(repeat('x', 14000000))", "takes 14,000,002 bytes"),
        ("('1' || repeat('0', 400) || '.5')::jsonb", "too large"),
    ],
)
def test_a_result_that_raw_sql_made_odd_breaks_nothing(api, result, words):
    """PAY-07, PAY-12, PAY-14."""
    job = factories.succeeded()
    put(job.id, result=result, args=result.replace("to_jsonb", "jsonb_build_array"))
    shown = read(api, job.id)
    assert shown["result"] is None
    assert words in shown["result_omitted"]


@pytest.mark.parametrize(
    "entry",
    [
        "'[7]'", "'[null]'", "'[[]]'", "'[{}]'",
        """'[{"attempt": {"a": 1}, "message": [1], "at": 5, "exception": null}]'""",
        """jsonb_build_array(jsonb_build_object('message', repeat('x', 14000000)))""",
    ],
)  # fmt: skip
def test_an_error_that_raw_sql_made_odd_breaks_nothing(api, entry):
    """PAY-06, PAY-12."""
    job = factories.dead()
    put(job.id, errors=f"({entry})::jsonb")
    response = api.get(f"/api/jobs/{job.id}")
    assert response.status_code == 200
    assert response.json()["last_error"]["attempt"] is None
    assert len(response.content) < 10_000


def test_texts_that_look_like_html_are_json_only(api):
    """DJG-10."""
    job = factories.queued(task="<script>alert(1)</script>")
    response = api.get(f"/api/jobs/{job.id}", headers={"accept": "text/html"})
    assert response.headers["Content-Type"] == "application/json"
    assert response.json()["task"] == "<script>alert(1)</script>"
    assert Job.objects.count() == 1
