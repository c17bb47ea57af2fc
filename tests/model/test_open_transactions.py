"""What others do while a statement on a job is done, and not yet committed."""

from collections.abc import Callable
from typing import Any

import pytest

from pgqueue_django.attempts import Attempt, Write, Written
from pgqueue_django.managers.jobs import JobManager
from pgqueue_django.models import Job
from pgqueue_django.states import LIVE, State
from tests import factories
from tests.model.jobs import ENDINGS
from tests.threads import Started
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


class _Undone(Exception):
    pass


def _end(verb: str) -> Callable[[JobManager, Attempt], Any]:
    def write(jobs: JobManager, attempt: Attempt) -> Any:
        detail = Write(attempt, 5.0, factories.FAILURE)
        return getattr(jobs, f"{verb}_many")([detail]).done

    return write


# Each changes a job that runs, and whose lease has ended.
FIRST: dict[str, Callable[[JobManager, Attempt], Any]] = {
    **{verb: _end(verb) for verb in ENDINGS},
    "renew": lambda jobs, attempt: jobs.renew(attempt, lease=60),
    "reap": lambda jobs, _: jobs.reap(),
    "reap_dead_worker": lambda jobs, _: jobs.reap_dead_worker(factories.WORKER),
    "cancel": lambda jobs, attempt: jobs.cancel(attempt.id),
}


def _pass_by(jobs: JobManager, attempt: Attempt) -> None:
    """Do all that never waits: it finds the row locked, and does nothing."""
    for verb in ENDINGS:
        written = getattr(jobs, f"{verb}_many")([Write(attempt, 0.0, "1")])
        assert written == Written([], [], [attempt])
    assert jobs.renew_many([Write(attempt)], lease=9) == Written([], [], [attempt])
    assert jobs.reap() == jobs.reap_dead_worker(factories.WORKER) == []
    assert jobs.claim("default", limit=1, worker="w", lease=9) == []
    assert jobs.claim_unserved(
        "default", tasks=["tests.task"], limit=1, worker="w", lease=9
    ) == []  # fmt: skip
    assert jobs.set_aside("default", tasks=[]) == 0
    assert jobs.promote() == {}
    assert jobs.prune(older_than=-60) == 0


@pytest.mark.parametrize("is_kept", [True, False], ids=["committed", "rolled back"])
@pytest.mark.parametrize("first", FIRST)
def test_workers_pass_a_row_by_and_a_person_waits_for_it(
    first, is_kept, new_session, watcher
):
    """Rule 10: what is undecided is neither done nor lost, and then it is one."""
    attempt = factories.claimed(max_attempts=3)
    factories.expire(attempt)
    own, others = new_session(), Job.objects.on(new_session())
    person = Job.objects.on(new_session())

    try:
        with own.atomic():
            assert FIRST[first](Job.objects.on(own), attempt)
            after = own.rows("SELECT state FROM pgqueue_job", {})[0][0]
            _pass_by(others, attempt)
            cancel = Started(person.cancel, attempt.id)
            wait_until(watcher.blocked)
            if not is_kept:
                raise _Undone
    except _Undone:
        after = State.RUNNING

    # The person's word counts for what the job is now, and ends what still lives.
    assert cancel.result() == (after in LIVE)
    assert factories.states() == [State.CANCELLED if after in LIVE else after]
    assert others.ack_many([Write(attempt)]) == Written([], [attempt], [])
