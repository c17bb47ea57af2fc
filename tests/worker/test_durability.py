"""Outcomes that share commits, and outcomes that do not."""

import pytest

from pgqueue_django.conf import get_settings
from pgqueue_django.db import WorkerSession
from pgqueue_django.exceptions import InvalidSettings
from pgqueue_django.sql import holding as sql
from tests import factories
from tests.waiting import wait_until
from tests.worker import handlers
from tests.worker.conftest import add, finished

JOBS = 60


@pytest.fixture
def acks(monkeypatch):
    """Return how many outcomes each ack has brought."""
    counts: list[int] = []
    rows = WorkerSession.rows

    def noted(self, statement, params):
        found = rows(self, statement, params)
        if statement == sql.ACK:
            counts.append(len(found[0][0] or ()))
        return found

    monkeypatch.setattr(WorkerSession, "rows", noted)
    return counts


@pytest.mark.parametrize("threads", [1, 4, 20])
def test_per_job_each_outcome_has_a_commit_of_its_own(
    start_worker, settings, acks, threads
):
    settings.PGQUEUE = {**settings.PGQUEUE, "DURABILITY": "per_job"}
    ids = [add(handlers.noop) for _ in range(JOBS)]
    running = start_worker(threads=threads)
    wait_until(lambda: set(factories.states(ids)) == {"succeeded"})

    assert running.stop() == 0
    assert acks == [1] * JOBS


def test_batched_outcomes_share_commits(start_worker, acks):
    ids = [add(handlers.noop) for _ in range(JOBS)]
    running = start_worker()
    wait_until(lambda: set(factories.states(ids)) == {"succeeded"})

    assert running.stop() == 0
    assert sum(acks) == JOBS
    assert len(acks) < JOBS


def test_per_job_failures_and_retries_are_recorded_too(start_worker, settings):
    settings.PGQUEUE = {**settings.PGQUEUE, "DURABILITY": "per_job"}
    id_ = add(handlers.fail_until_last)
    start_worker(threads=4)
    assert finished(id_).result == "at attempt 3"


@pytest.mark.parametrize("value", ["per-job", "", None, True, 1])
def test_other_words_are_refused(settings, value):
    settings.PGQUEUE = {"DURABILITY": value}
    with pytest.raises(InvalidSettings, match=r"DURABILITY.*batched or per_job"):
        get_settings()
