"""POST /jobs/{id}/cancel."""

import pytest

from pgqueue_django.api import views
from pgqueue_django.models import Job
from tests import factories


def cancel(api, id_, body=""):
    return api.send(body, path=f"/api/jobs/{id_}/cancel")


@pytest.mark.django_db
@pytest.mark.parametrize("made", [factories.queued, factories.unserved])
def test_ends_a_job_that_waits(api, made):
    response = cancel(api, made().id)
    assert response.status_code == 200
    assert response.json()["state"] == "cancelled"


@pytest.mark.django_db
def test_ends_a_scheduled_job(api):
    assert cancel(api, factories.queued(delay=60).id).status_code == 200


@pytest.mark.django_db
def test_ends_a_running_job_whose_worker_can_then_write_nothing(api):
    attempt = factories.claimed()
    assert cancel(api, attempt.id, "{}").status_code == 200
    assert not Job.objects.ack(attempt, "1")
    assert factories.get(attempt.id).state == "cancelled"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "made", [factories.succeeded, factories.dead, factories.cancelled]
)
def test_a_finished_job_is_a_conflict(api, made):
    job = made()
    response = cancel(api, job.id)
    assert response.status_code == 409
    assert response.json()["code"] == "already_finished"
    assert job.state in response.json()["detail"]
    assert factories.get(job.id).state == job.state


@pytest.mark.django_db
def test_fields_are_refused(api):
    job = factories.queued()
    assert cancel(api, job.id, {"force": True}).status_code == 400
    assert cancel(api, job.id, "[]").status_code == 400
    assert factories.get(job.id).state == "queued"


@pytest.mark.django_db(transaction=True)
def test_a_job_that_stays_locked_is_busy(api, connect, monkeypatch):
    monkeypatch.setattr(views, "_LOCK_SECONDS", 0.2)
    job = factories.queued()
    other = connect()
    with other.transaction():
        other.execute("SELECT 1 FROM pgqueue_job WHERE id = %s FOR UPDATE", [job.id])
        response = cancel(api, job.id)
    assert response.status_code == 503
    assert response.json()["code"] == "busy"
    assert cancel(api, job.id).status_code == 200
