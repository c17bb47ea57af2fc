"""All verbs at once, at random, on the same few hundred rows."""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from threading import Event, Timer
from typing import Any, TypeVar

import pytest
from django.db import connection

from pgqueue_django.attempts import Attempt, Write, Written
from pgqueue_django.db import WorkerSession
from pgqueue_django.models import Job
from pgqueue_django.states import State
from tests import factories
from tests.threads import together

T = TypeVar("T")

SECONDS = 4.0
THREADS = 8
ROWS = 300

EXPIRE_SOME = """
UPDATE pgqueue_job SET lease_expires_at = statement_timestamp() - interval '1 s'
WHERE id = ANY(ARRAY(
    SELECT id FROM pgqueue_job WHERE state = 'running' AND id %% 3 = %(rest)s
    FOR UPDATE SKIP LOCKED
)) RETURNING id
"""


class Rioter:
    """One thread: does whatever comes to its mind, and keeps books."""

    def __init__(self, session: WorkerSession, number: int, until: Event) -> None:
        self.session = session
        self.queue = Job.objects.on(session)
        self.name = f"w{number}"
        self.random = Random(number)
        self.until = until
        self.held: list[Attempt] = []
        self.claims: Counter[int] = Counter()
        self.ends: Counter[int] = Counter()
        self.acks: Counter[int] = Counter()
        self.done: Counter[str] = Counter()

    def run(self) -> "Rioter":
        deeds = [getattr(self, name) for name in dir(self) if name.startswith("do_")]
        weights = [4 if deed.__name__ in _OFTEN else 1 for deed in deeds]
        while not self.until.is_set():
            (deed,) = self.random.choices(deeds, weights)
            deed()
            self.done[deed.__name__] += 1
        return self

    def some_ids(self, most: int) -> list[int]:
        ids = [row[0] for row in self.session.rows("SELECT id FROM pgqueue_job", {})]
        return self.random.sample(ids, min(len(ids), self.random.randint(1, most)))

    def do_claim(self) -> None:
        limit = self.random.randint(1, 30)
        self.took(self.queue.claim("q", limit=limit, worker=self.name, lease=5))

    def do_claim_unserved(self) -> None:
        self.took(
            self.queue.claim_unserved(
                "q", tasks=["t", "u"], limit=20, worker=self.name, lease=5
            )
        )

    def took(self, attempts: list[Attempt]) -> None:
        self.held += attempts
        self.claims.update(attempt.id for attempt in attempts)

    def do_write(self) -> None:
        self.random.shuffle(self.held)
        chosen, self.held = self.held[:15], self.held[15:]
        write: Callable[[Any], Written] = getattr(
            self.queue, self.random.choice(_ENDINGS)
        )
        delay = self.random.choice([0.0, 0.01, 5.0])
        written = write(Write(a, delay, factories.FAILURE) for a in chosen)
        self.held += written.busy
        self.ends.update(attempt.id for attempt in written.done)
        if write.__name__ == "ack_many":
            self.acks.update(attempt.id for attempt in written.done)
        # What was written once can never be written again under the same token.
        assert not self.queue.ack_many(Write(a) for a in written.done).done

    def do_renew(self) -> None:
        written = self.queue.renew_many(map(Write, self.held), lease=5)
        self.held = written.done + written.busy

    def do_expire(self) -> None:
        self.session.rows(EXPIRE_SOME, {"rest": self.random.randint(0, 2)})

    def do_reap(self) -> None:
        self.ends.update(job.id for job in self.queue.reap(limit=50))

    def do_cancel(self) -> None:
        self.queue.cancel_many(self.some_ids(10))

    def do_requeue(self) -> None:
        self.queue.requeue_many(self.some_ids(100))

    def do_prune(self) -> None:
        self.queue.prune(older_than=0.5, limit=20)

    def do_promote(self) -> None:
        self.queue.promote(limit=50)

    def do_set_aside(self) -> None:
        self.queue.set_aside("q", tasks=["t"], depth=40)

    def do_enqueue(self) -> None:
        if self.queue.count() < ROWS:
            self.queue.enqueue(self.spec())

    def do_enqueue_many(self) -> None:
        if self.queue.count() < ROWS:
            self.queue.enqueue_many(self.spec() for _ in range(40))

    def spec(self) -> Any:
        key = self.random.choice([None, f"k{self.random.randint(0, 60)}"])
        task = "t" if key else self.random.choice("tu")
        return factories.spec(
            task, queue="q", idempotency_key=key, max_attempts=self.random.randint(1, 3)
        )


_OFTEN = ("do_claim", "do_write", "do_renew", "do_enqueue_many")
_ENDINGS = [
    "ack_many", "retry_many", "fail_many", "cancel_held_many", "snooze_many",
    "release_many", "park_many",
]  # fmt: skip


def _total(counters: Iterable[Counter[T]]) -> Counter[T]:
    return sum(counters, Counter())


def deadlocks() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
        count: int = cursor.fetchall()[0][0]
    return count


@pytest.mark.django_db(transaction=True)
def test_all_verbs_at_once_neither_deadlock_nor_share_a_job(new_session):
    """CNC-02, scaled: every claim ends exactly once."""
    before = deadlocks()
    over = Event()
    rioters = [Rioter(new_session(), n, over) for n in range(THREADS)]
    timer = Timer(SECONDS, over.set)
    timer.start()

    together(lambda rioter: rioter.run(), rioters)

    claims = _total(rioter.claims for rioter in rioters)
    ends = _total(rioter.ends for rioter in rioters)
    acks = _total(rioter.acks for rioter in rioters)
    done = _total(rioter.done for rioter in rioters)
    assert deadlocks() == before
    assert all(count == 1 for count in acks.values())
    states: dict[int, Any] = dict(Job.objects.values_list("id", "state"))
    for id_, count in claims.items():
        # A cancel ends a claim as well, but does not say so; then a job can be pruned.
        still_held = {State.RUNNING: {1}, State.CANCELLED: {0, 1}, None: {0, 1}}
        assert count - ends[id_] in still_held.get(states.get(id_), {0}), id_
    # It was a storm.
    assert sum(claims.values()) > 200
    assert sum(acks.values()) > 20
    assert len(done) == len([name for name in dir(Rioter) if name.startswith("do_")])
    timer.join()
