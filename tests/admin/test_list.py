"""The list of jobs."""

import pytest
from django.contrib import admin as django_admin
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pgqueue_django.admin import changelist
from pgqueue_django.models import Job
from pgqueue_django.states import State
from tests import factories
from tests.admin.conftest import LIST, ids_in, page_of

pytestmark = pytest.mark.django_db

JSON_COLUMNS = ('"args"', '"kwargs"', '"result"', '"errors"')


def queries_of(client, **query):
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert client.get(LIST, query).status_code == 200
    return [each["sql"] for each in captured.captured_queries]


def test_shows_state_task_queue_and_attempts(admin):
    factories.claimed("shop.pay", queue="q", priority=5, max_attempts=7)
    html = page_of(admin)
    for text in ("shop.pay", ">q<", ">5<", "running", ">1/7<", "0 s"):
        assert text in html, text


def test_reads_no_json_column(admin):
    """PAY-12."""
    factories.queued_many(3)
    queries = queries_of(admin)
    assert any('FROM "pgqueue_job"' in sql for sql in queries)
    for sql in queries:
        assert not any(column in sql for column in JSON_COLUMNS), sql


def test_takes_as_many_queries_for_many_jobs_as_for_one(admin):
    """DJG-08."""
    factories.queued()
    one = len(queries_of(admin))
    factories.queued_many(60)
    assert len(queries_of(admin)) == one


def test_a_job_of_14_mb_costs_the_list_nothing(admin, put):
    """PAY-12."""
    job = factories.succeeded()
    put(job.id, result="to_jsonb(repeat('x', 14000000))")
    assert len(admin.get(LIST).content) < 100_000


@pytest.mark.parametrize(
    "value",
    ["('[1' || repeat('0', 5000) || ']')::jsonb",
     "(repeat('[', 6000) || repeat(']', 6000))::jsonb"],
)  # fmt: skip
def test_a_row_that_raw_sql_made_odd_breaks_nothing(admin, put, value):
    """PAY-07, PAY-14."""
    job = factories.succeeded()
    put(
        job.id,
        args=value,
        kwargs=value,
        result=value,
        errors=f"jsonb_build_array({value})",
    )
    assert ids_in(admin) == [job.id]


def test_counts_no_further_than_its_limit(admin, monkeypatch):
    """DJG-07."""
    monkeypatch.setattr(changelist, "COUNTED_AT_MOST", 60)
    factories.queued_many(70)
    counts = [sql for sql in queries_of(admin) if "COUNT(" in sql]
    assert len(counts) == 1
    assert "LIMIT 60" in counts[0]
    assert "counted up to 60" in page_of(admin)
    assert len(ids_in(admin, p=2)) == 10
    # The end of what was counted, not of what there is.
    assert admin.get(LIST, {"p": 3}).status_code == 302


def test_a_count_that_takes_too_long_is_left_out(admin, monkeypatch, slow_rows):
    """DJG-07."""
    monkeypatch.setattr(changelist, "COUNT_SECONDS", 0.001)
    ids = factories.queued_many(3)
    slow_rows(0.01)
    response = admin.get(LIST)
    assert [job.pk for job in response.context["cl"].result_list] == ids[::-1]
    assert response.context["cl"].result_count == 3


def test_a_page_that_takes_too_long_is_given_up_with_advice(
    admin, monkeypatch, slow_rows
):
    """DJG-07."""
    monkeypatch.setattr(changelist, "PAGE_SECONDS", 0.05)
    factories.queued_many(3)
    slow_rows(0.2)
    assert "Add a filter by state" in page_of(admin)


@pytest.fixture
def slow_rows(monkeypatch):
    """Return a function that makes reading a job take a while."""

    def slowed(seconds):
        own = django_admin.site._registry[Job]
        fast = own.get_queryset
        condition = f"pg_sleep({seconds}) IS NOT NULL AND pgqueue_job.id > 0"
        monkeypatch.setattr(
            own, "get_queryset", lambda request: fast(request).extra(where=[condition])
        )

    return slowed


@pytest.mark.parametrize("state", State.values)
def test_filters_by_state(admin, state):
    made = {
        "scheduled": lambda: factories.queued(delay=60).id,
        "queued": lambda: factories.queued().id,
        "unserved": lambda: factories.unserved(queue="u").id,
        "running": lambda: factories.claimed(queue="r").id,
        "succeeded": lambda: factories.succeeded(queue="s").id,
        "dead": lambda: factories.dead(queue="d").id,
        "cancelled": lambda: factories.cancelled().id,
    }
    ids = {name: make() for name, make in made.items()}
    assert ids_in(admin, state__exact=state) == [ids[state]]


def test_filters_by_queue_and_task_without_looking_for_choices(admin):
    """DJG-08."""
    wanted = factories.queued("some.task", queue="some").id
    factories.queued()
    assert ids_in(admin, queue="some") == ids_in(admin, task="some.task") == [wanted]
    assert not any("DISTINCT" in sql for sql in queries_of(admin, queue="some"))


def test_other_lookups_are_not_allowed(admin):
    factories.queued()
    for lookup in ("args__icontains", "kwargs__a", "enqueued_at__gt", "stat"):
        response = admin.get(LIST, {lookup: "1"})
        assert response.status_code in {302, 400}, lookup


@pytest.mark.parametrize("task", ["app.a_b", "app.axb", "app.100%", "app.back\\slash"])
def test_searches_literally(admin, task):
    """API-10."""
    ids = {name: factories.queued(name).id for name in
           ("app.a_b", "app.axb", "app.100%", "app.back\\slash")}  # fmt: skip
    assert ids_in(admin, q=task) == [ids[task]]


@pytest.mark.parametrize("term", ["%", "_", "\\", "%" * 10_000, "9" * 300, "0", "-1"])
def test_a_search_for_wildcards_finds_nothing(admin, term):
    """API-10."""
    factories.queued("app.100%")
    assert ids_in(admin, q=term) == []


def test_searches_by_id_and_by_idempotency_key(admin):
    first = factories.queued(idempotency_key="order-5").id
    second = factories.queued(idempotency_key=str(first)).id
    assert ids_in(admin, q="order-5") == [first]
    assert ids_in(admin, q=f" {first} ") == [second, first]
    assert ids_in(admin, q=str(2**63)) == []


def test_a_nul_in_a_search_is_refused(admin):
    factories.queued()
    assert "Null characters" in page_of(admin, q="a\0b")


HOSTILE = "<script>alert(1)</script>"


def test_what_looks_like_html_is_escaped(admin):
    """DJG-10."""
    factories.queued(HOSTILE, queue=HOSTILE, idempotency_key=HOSTILE)
    for query in ({}, {"queue": HOSTILE}, {"task": HOSTILE}, {"q": HOSTILE}):
        html = page_of(admin, **query)
        assert HOSTILE not in html
        assert "&lt;script&gt;" in html
