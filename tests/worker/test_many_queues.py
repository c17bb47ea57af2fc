"""A worker of many queues asks once which of them have something, and claims there."""

import pytest

from pgqueue_django.db import WorkerSession
from pgqueue_django.sql import holding as sql
from pgqueue_django.worker.claimer import Claimer
from tests.worker import handlers
from tests.worker.conftest import add, finished

QUEUES = [f"q{n:02}" for n in range(40)]


@pytest.fixture
def claims(monkeypatch):
    """Return the queues from which workers have claimed, and those that they gave."""
    asked: list[tuple[str, int]] = []
    rows = WorkerSession.rows

    def noted(self, statement, params):
        found = rows(self, statement, params)
        if statement in (sql.CLAIM, sql.CLAIM_ON):
            asked.append((params["queue"], len(found)))
        return found

    monkeypatch.setattr(WorkerSession, "rows", noted)
    return asked


def test_jobs_of_the_last_queue_are_found_after_a_few_looks_in_vain(
    start_worker, claims
):
    """PRF-06: the look costs the queues that have something, not those served."""
    ids = [add(handlers.noop, options={"queue": QUEUES[-1]}) for _ in range(3)]
    start_worker(",".join(QUEUES), poll_interval=60)

    assert {finished(id_).state for id_ in ids} == {"succeeded"}
    in_vain = [queue for queue, jobs in claims if queue != QUEUES[-1]]
    assert len(in_vain) <= 6


def test_a_hint_for_all_during_a_look_costs_no_look_at_each(
    start_worker, claims, monkeypatch
):
    """As the listener gives it when it begins to hear."""
    narrow = Claimer._narrow
    hinted: list[bool] = []

    def narrow_and_hint(self):
        narrow(self)
        if not hinted:
            hinted.append(self.hint(QUEUES))

    monkeypatch.setattr(Claimer, "_narrow", narrow_and_hint)
    ids = [add(handlers.noop, options={"queue": QUEUES[-1]}) for _ in range(3)]
    start_worker(",".join(QUEUES), poll_interval=60)

    assert {finished(id_).state for id_ in ids} == {"succeeded"}
    assert hinted
    assert len([queue for queue, jobs in claims if queue != QUEUES[-1]]) <= 9


def test_all_queues_are_served_when_all_have_jobs(start_worker, claims):
    ids = [add(handlers.noop, options={"queue": queue}) for queue in QUEUES]
    start_worker(",".join(QUEUES), poll_interval=60)

    assert {finished(id_).state for id_ in ids} == {"succeeded"}
    assert {queue for queue, jobs in claims if jobs} == set(QUEUES)
