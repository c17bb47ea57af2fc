"""The action *cancel*."""

import pytest
from django.contrib.admin.models import LogEntry

from pgqueue_django.admin import cancelling
from pgqueue_django.models import Job
from tests import factories
from tests.admin.conftest import LIST, page_of


def cancel(client, ids, query="", **data):
    data = {"action": "cancel_jobs", "_selected_action": ids, "index": "0", **data}
    response = client.post(f"{LIST}{query}", data, follow=True)
    assert response.status_code == 200
    return [str(message) for message in response.context["messages"]]


@pytest.mark.django_db
def test_ends_what_has_not_finished_and_says_how_many(admin):
    live = [
        factories.queued(delay=60).id,
        factories.claimed(queue="r").id,
        factories.unserved(queue="u").id,
        factories.queued().id,
    ]
    done = [factories.succeeded(queue="s").id, factories.dead(queue="d").id]
    words = cancel(admin, live + done)
    assert words == [
        "4 jobs cancelled. 2 jobs not: finished before, or locked just now."
    ]
    assert factories.states(live) == ["cancelled"] * 4
    assert factories.states(done) == ["succeeded", "dead"]


@pytest.mark.django_db
def test_says_so_when_all_were_cancelled(admin):
    assert cancel(admin, [factories.queued().id]) == ["1 job cancelled."]


@pytest.mark.django_db
def test_is_in_the_jobs_history(admin):
    job = factories.queued("shop.pay")
    cancel(admin, [job.id])
    entry = LogEntry.objects.get()
    assert entry.object_repr == f"job {job.id} (shop.pay, cancelled)"
    assert "Cancelled." in page_of(admin, f"{LIST}{job.id}/history/")


@pytest.mark.django_db
def test_wants_the_permission_to_change(staff):
    job = factories.queued()
    client = staff("view_job")
    assert "cancel_jobs" not in page_of(client)
    cancel(client, [job.id])
    assert factories.get(job.id).state == "queued"


@pytest.mark.django_db
def test_all_across_pages_are_cancelled_in_batches(admin, monkeypatch):
    """DJG-07."""
    monkeypatch.setattr(cancelling, "_BATCH", 7)
    ids = factories.queued_many(60, queue="q")
    spared = factories.queued(queue="other").id
    words = cancel(admin, ids[:1], query="?queue=q", select_across="1")
    assert words == ["60 jobs cancelled."]
    assert set(factories.states(ids)) == {"cancelled"}
    assert factories.get(spared).state == "queued"


@pytest.mark.django_db
def test_stops_in_time_and_says_that_there_is_more(admin, monkeypatch):
    """DJG-07."""
    monkeypatch.setattr(cancelling, "_BATCH", 5)
    monkeypatch.setattr(cancelling, "_SECONDS", 0.0)
    ids = factories.queued_many(20)
    words = cancel(admin, ids[:1], select_across="1")
    assert words == ["5 jobs cancelled. There are more: run the action again."]


@pytest.mark.django_db(transaction=True)
def test_jobs_that_stay_locked_are_left_out(admin, connect, monkeypatch):
    """CNC-02."""
    monkeypatch.setattr(cancelling, "_LOCK_SECONDS", 0.05)
    ids = factories.queued_many(10)
    other = connect()
    with other.transaction():
        other.execute("SELECT 1 FROM pgqueue_job WHERE id = %s FOR UPDATE", [ids[4]])
        words = cancel(admin, ids)
    assert words == [
        "9 jobs cancelled. 1 job not: finished before, or locked just now."
    ]
    assert Job.objects.get(state="queued").id == ids[4]
