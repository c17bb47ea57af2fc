"""A worker claims from all its queues in one statement, in their order."""

import pytest

from pgqueue_django.attempts import Attempt
from pgqueue_django.db import WorkerSession
from pgqueue_django.sql import holding as sql
from tests.worker import handlers
from tests.worker.conftest import add, finished, pause

QUEUES = [f"q{n:02}" for n in range(40)]
CLAIMS = (sql.CLAIM, sql.CLAIM_ON, sql.CLAIM_ALONG)


@pytest.fixture
def claims(monkeypatch):
    """Return the claims of workers: the queue of each job, in order."""
    asked: list[list[str]] = []
    rows = WorkerSession.rows

    def noted(self, statement, params):
        found = rows(self, statement, params)
        if statement in CLAIMS:
            asked.append([Attempt._make(row).queue for row in found])
        return found

    monkeypatch.setattr(WorkerSession, "rows", noted)
    return asked


def test_jobs_of_the_last_queue_are_found_at_the_first_look(start_worker, claims):
    """PRF-06: a look costs one statement, however many queues have nothing."""
    ids = [add(handlers.noop, options={"queue": QUEUES[-1]}) for _ in range(3)]
    start_worker(",".join(QUEUES), poll_interval=60)

    assert {finished(id_).state for id_ in ids} == {"succeeded"}
    assert claims[0]


def test_a_claim_takes_from_many_queues(start_worker, claims):
    ids = [add(handlers.noop, options={"queue": queue}) for queue in QUEUES]
    start_worker(",".join(QUEUES), poll_interval=60)

    assert {finished(id_).state for id_ in ids} == {"succeeded"}
    assert sorted(queue for claim in claims for queue in claim) == QUEUES
    assert len([claim for claim in claims if claim]) < len(QUEUES)


def test_the_first_queues_come_first(start_worker, claims):
    last = [add(handlers.noop, options={"queue": "last"}) for _ in range(20)]
    first = [add(handlers.noop, options={"queue": "first"}) for _ in range(20)]
    start_worker("first,last", threads=1, poll_interval=60)

    assert {finished(id_).state for id_ in first + last} == {"succeeded"}
    assert [queue for claim in claims for queue in claim] == (
        ["first"] * 20 + ["last"] * 20
    )


def test_what_comes_before_the_place_of_the_last_claim_is_found(start_worker, claims):
    start_worker(",".join(QUEUES), poll_interval=60)
    assert finished(add(handlers.noop, options={"queue": QUEUES[3]})).state

    urgent = add(handlers.noop, options={"queue": QUEUES[3], "priority": 9})

    assert finished(urgent).state == "succeeded"


def test_a_hint_at_a_quiet_time_costs_one_look(start_worker, claims):
    start_worker(poll_interval=60)
    assert finished(add(handlers.noop)).state == "succeeded"
    pause(1)
    claims.clear()

    for _ in range(5):
        assert finished(add(handlers.noop)).state == "succeeded"
        pause(0.3)

    assert len([claim for claim in claims if claim]) == 5
    # One that the machine held up makes looks from the head rarer: two then.
    assert len(claims) <= 7
