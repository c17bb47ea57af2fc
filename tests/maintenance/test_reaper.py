"""The reaper looks when a lease ends, and seldom else."""

import pytest
from django.db import OperationalError, connection

from bench.proxy import proxied
from pgqueue_django.db import WorkerSession
from pgqueue_django.maintenance.reaper import Reaper
from pgqueue_django.models import Job
from tests import factories
from tests.waiting import wait_until
from tests.worker.conftest import extra_alias

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


@pytest.fixture
def proxy():
    with (
        proxied(connection.settings_dict) as (made, settings_dict),
        extra_alias("proxied", settings_dict),
    ):
        yield made


@pytest.fixture
def far_reaper(proxy, due):
    """Return a reaper on the other side of a proxy, which has looked once."""
    session = WorkerSession("proxied", name="pgqueue test far")
    reaper = Reaper(session, 60, due.append)
    reaper.run_once()
    yield reaper
    session.close()


def outage(proxy, reaper, *refused):
    """Cut the reaper off; let it be refused in vain so often."""
    proxy.refuse()
    proxy.cut()
    for _ in refused:
        with pytest.raises(OperationalError):
            reaper.run_once()
    proxy.allow()


def test_after_an_outage_holders_get_a_grace_to_renew(proxy, far_reaper, monkeypatch):
    monkeypatch.setattr("pgqueue_django.maintenance.reaper._GRACE", 0.3)
    id_ = ends_in(-1)
    outage(proxy, far_reaper, "the cut", "a refusal")

    assert 0 < far_reaper.run_once() <= 0.3
    assert Job.objects.get(pk=id_).state == "running"

    wait_until(lambda: far_reaper.run_once() == 0)
    assert Job.objects.get(pk=id_).state == "queued"


def test_a_connection_that_broke_alone_is_no_outage(proxy, far_reaper):
    id_ = ends_in(-1)
    proxy.cut()
    with pytest.raises(OperationalError):
        far_reaper.run_once()

    assert far_reaper.run_once() == 0
    assert Job.objects.get(pk=id_).state == "queued"


def test_a_server_that_is_never_well_gets_no_grace_for_ever(proxy, far_reaper):
    id_ = ends_in(-1)
    for _ in range(3):
        outage(proxy, far_reaper, "the cut", "a refusal")
        assert far_reaper.run_once() > 1

    outage(proxy, far_reaper, "the cut", "a refusal")
    assert far_reaper.run_once() == 0
    assert Job.objects.get(pk=id_).state == "queued"
