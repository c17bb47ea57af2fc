"""The model and the walk notice when a statement loses what it is careful about."""

from contextlib import closing
from typing import Any, NamedTuple

import pytest
from django.db import Error
from hypothesis import Phase
from hypothesis.stateful import run_state_machine_as_test

from pgqueue_django.sql import holding, jobs
from tests.model.machine import bounded, machine_in
from tests.model.walk import Walk

pytestmark = pytest.mark.django_db(transaction=True)

NOTICED = (AssertionError, LookupError, Error)

_TOKEN = " AND lease_token = given.token"


class Mutation(NamedTuple):
    """A statement, and what is taken out of it, for what."""

    module: Any
    statement: str
    was: str
    becomes: str = ""

    def make(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the managers find the changed text."""
        text = getattr(self.module, self.statement)
        assert self.was in text
        changed = text.replace(self.was, self.becomes)
        monkeypatch.setattr(self.module, self.statement, changed)


MUTATIONS = {
    "an ack without its token": Mutation(holding, "ACK", _TOKEN),
    "a renewal without its token": Mutation(holding, "RENEW", _TOKEN),
    "a retry without its token": Mutation(holding, "RETRY", _TOKEN),
    "a release without its token": Mutation(holding, "RELEASE", _TOKEN),
    "attempts that are not counted": Mutation(
        holding, "CLAIM", "attempts = attempts + 1", "attempts = attempts"
    ),
    "a lease that is not given up": Mutation(
        holding, "FAIL", "lease_expires_at = NULL,"
    ),
    "a release that keeps the attempt": Mutation(
        holding, "RELEASE", "attempts = greatest(job.attempts - 1, 0),"
    ),
    "a success that is not counted": Mutation(
        holding, "ACK", "%(counted)s::boolean", "NOT %(counted)s::boolean"
    ),
    "a claim of what is running": Mutation(
        holding, "CLAIM", "state = 'queued'", "state IN ('queued', 'running')"
    ),
    "a reap of leases that still last": Mutation(
        jobs, "REAP", " AND lease_expires_at < statement_timestamp()"
    ),
    "a reap that goes on for ever": Mutation(
        jobs, "REAP", "job.attempts >= job.max_attempts", "false"
    ),
    "a promotion before its time": Mutation(
        jobs, "PROMOTE_ALONE", " AND run_at <= statement_timestamp()"
    ),
    "a cancel of what has finished": Mutation(
        jobs, "CANCEL", "'running')", "'running', 'succeeded')"
    ),
    "a requeue that keeps the attempts": Mutation(jobs, "REQUEUE", "attempts = 0,"),
}


# What random steps come upon within seconds; the walk comes upon all.
OFTEN_MET = [
    "an ack without its token",
    "a renewal without its token",
    "a retry without its token",
    "attempts that are not counted",
    "a reap of leases that still last",
    "a success that is not counted",
]


@pytest.mark.parametrize("name", OFTEN_MET)
def test_the_model_notices(name, world, monkeypatch):
    MUTATIONS[name].make(monkeypatch)

    with pytest.raises(NOTICED):
        run_state_machine_as_test(
            machine_in(world), settings=bounded(100, phases=[Phase.generate])
        )


@pytest.mark.usefixtures("need_no_disk")
@pytest.mark.parametrize("name", MUTATIONS)
def test_the_walk_notices(name, monkeypatch):
    MUTATIONS[name].make(monkeypatch)

    with closing(Walk(max_attempts=2)) as walk, pytest.raises(NOTICED):
        walk.run()
