"""The reaper looks when a lease ends, and seldom else."""

import pytest

from pgqueue_django.maintenance.reaper import Reaper
from pgqueue_django.models import Job
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def due() -> list[str]:
    return []


@pytest.fixture
def reaper(session, due):
    return Reaper(session, 60, due.append)


def ends_in(seconds: float) -> int:
    """Return a running job whose lease ends so soon."""
    attempt = factories.claimed()
    factories.tick(attempt.id, lease_expires_at=seconds)
    return attempt.id


def test_looks_seldom_while_no_lease_is_held(reaper):
    assert 45 <= reaper.run_once() <= 60


def test_sleeps_until_the_first_lease_ends(reaper):
    ends_in(20)
    ends_in(10)
    assert 9 < reaper.run_once() <= 10.1


def test_sleeps_no_longer_than_its_interval(reaper):
    ends_in(3_600)
    assert 45 <= reaper.run_once() <= 60


def test_a_lease_that_has_ended_is_reaped_and_said(reaper, due):
    id_ = ends_in(-1)
    assert reaper.run_once() == 0
    assert due == ["default"]
    assert Job.objects.get(pk=id_).state == "queued"
    assert reaper.run_once() > 1


def test_waits_a_little_for_a_row_that_somebody_has_locked(reaper, connect):
    id_ = ends_in(-1)
    other = connect()
    with other.transaction():
        other.execute("SELECT FROM pgqueue_job WHERE id = %s FOR UPDATE", [id_])
        assert 0 < reaper.run_once() < 1

    assert reaper.run_once() == 0
    assert Job.objects.get(pk=id_).state == "queued"
