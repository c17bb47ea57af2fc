"""The page of one job."""

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pgqueue_django.failures import Failure
from pgqueue_django.models import Job
from tests import factories
from tests.admin.conftest import LIST, detail_of

pytestmark = pytest.mark.django_db

ODD = [
    "('[1' || repeat('0', 5000) || ']')::jsonb",
    "(repeat('[', 6000) || repeat(']', 6000))::jsonb",
    "jsonb_build_array(repeat('x', 14000000))",
    "'[null]'::jsonb",
]


def raw(client, id_, field):
    return client.get(f"{LIST}{id_}/raw/{field}/")


def test_shows_arguments_and_result_as_readable_json(admin):
    job = factories.succeeded(args=[1, "żółć"], kwargs={"a": {"b": []}, "c": 1.5})
    html = detail_of(admin, job.id)
    assert "[\n  1,\n  &quot;żółć&quot;\n]" in html
    assert "{\n  &quot;a&quot;: {\n    &quot;b&quot;: []\n  },\n" in html
    assert "&quot;done&quot;" in html


def test_shows_progress_and_metadata(admin):
    attempt = factories.claimed()
    Job.objects.save_metadata(attempt, '{"_progress": {"done": 3}, "file": "a.csv"}')
    html = detail_of(admin, attempt.id)
    assert "Progress and metadata" in html
    assert "&quot;file&quot;: &quot;a.csv&quot;" in html


def test_shows_every_attempts_error_newest_first(admin):
    attempt = factories.claimed(max_attempts=3)
    for text in ("first", "second"):
        failure = Failure("shop.Refused", f"{text} refusal", f"Traceback of {text}")
        assert Job.objects.retry(attempt, failure.as_json())
        Job.objects.promote()
        (attempt,) = factories.claim()
    html = detail_of(admin, attempt.id)
    assert html.count("<details") == 2
    assert html.index("Traceback of second") < html.index("Traceback of first")
    assert "Attempt 2" in html
    assert factories.WORKER in html


@pytest.mark.parametrize("value", ODD)
def test_a_row_that_raw_sql_made_odd_breaks_nothing(admin, put, value):
    """PAY-07, PAY-12, PAY-14."""
    job = factories.succeeded()
    put(job.id, args=value, kwargs=value, result=value, errors=value, metadata=value)
    html = detail_of(admin, job.id)
    assert f"job {job.id}" in html
    assert len(html) < 1_500_000


def test_a_large_value_is_cut_and_can_be_fetched_whole(admin, put):
    """PAY-12."""
    job = factories.succeeded()
    put(job.id, result="jsonb_build_array(repeat('é', 7000000), 1)")
    html = detail_of(admin, job.id)
    assert "The first 10000 characters of 13.4" in html
    assert f"{LIST}{job.id}/raw/result/" in html
    response = raw(admin, job.id, "result")
    whole = b"".join(response.streaming_content)
    assert json.loads(whole) == ["é" * 7_000_000, 1]
    assert int(response.headers["Content-Length"]) == len(whole)
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Content-Disposition"].startswith("attachment;")


def test_a_value_is_fetched_as_it_is_stored(admin, put):
    """PAY-07."""
    job = factories.succeeded()
    put(job.id, result="'[1.10, 1e400]'::jsonb")
    whole = b"".join(raw(admin, job.id, "result").streaming_content)
    assert whole == b"[1.10, 1" + b"0" * 400 + b"]"


def test_there_is_nothing_to_fetch_of_other_fields_and_jobs(admin):
    job = factories.queued()
    assert raw(admin, job.id, "result").status_code == 404
    assert raw(admin, job.id, "worker").status_code == 404
    assert raw(admin, 2**70, "args").status_code == 404
    assert raw(admin, job.id + 1, "args").status_code == 404


def test_fetching_wants_the_permission_to_view(staff):
    job = factories.queued()
    assert raw(staff("add_job"), job.id, "args").status_code == 403
    assert raw(staff("view_job"), job.id, "args").status_code == 200


def test_takes_a_fixed_number_of_queries(admin):
    """DJG-08."""
    dead = factories.dead().id
    admin.get(LIST)
    with CaptureQueriesContext(connection) as captured:
        detail_of(admin, dead)
    queries = [q["sql"] for q in captured if "pgqueue_job" in q["sql"]]
    # The columns, the four values, the errors.
    assert len(queries) == 6
    assert not any('"result"' in sql for sql in queries)


HOSTILE = "</pre><img src=x onerror=alert(1)><script>alert(1)</script>"


def test_what_looks_like_html_is_escaped(admin):
    """DJG-10."""
    attempt = factories.claimed(HOSTILE, kwargs={HOSTILE: HOSTILE}, max_attempts=1)
    Job.objects.fail(attempt, Failure(HOSTILE, HOSTILE, HOSTILE).as_json())
    html = detail_of(admin, attempt.id)
    assert "<img src=x" not in html
    assert "<script>alert" not in html
    assert html.count("&lt;img src=x onerror=alert(1)&gt;") >= 5


@pytest.mark.parametrize("id_", ["0", "abc", str(2**63), "9" * 5_000])
def test_an_id_that_no_job_has_leads_back(admin, id_):
    assert admin.get(f"{LIST}{id_}/change/").status_code == 302


def test_nothing_can_be_added_changed_or_deleted(client, admin_user):
    client.force_login(admin_user)
    job = factories.queued()
    change = f"{LIST}{job.id}/change/"
    html = client.get(change).content.decode()
    assert 'name="_save"' not in html
    assert 'class="deletelink"' not in html
    assert client.post(change, {"state": "succeeded"}).status_code == 403
    assert client.get(f"{LIST}add/").status_code == 403
    assert client.post(f"{LIST}{job.id}/delete/", {"post": "yes"}).status_code == 403
    assert factories.get(job.id).state == "queued"
