"""Every interleaving of statements on one job, by real SQL.

Two workers, a reaper, a promoter, a canceller, somebody who requeues and a pruner each
have a connection; what they send is one statement, committed. A state is what their
next statements can depend on: the job's state and attempts, whether it is due, whether
its lease has ended, and what each worker holds, which is nothing, the job's token, or
one that is no longer the job's. From each state every statement that anybody could
send is sent, until no new state turns up. There are only so many, so that this covers
orders of any length.

Left out of a state is what no statement asks for: the history, the result, the names.
They are compared with the model after each statement all the same.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import LiteralString, NamedTuple

from pgqueue_django import models
from pgqueue_django.attempts import Attempt, Write
from pgqueue_django.db import WorkerSession
from pgqueue_django.managers.jobs import JobManager
from pgqueue_django.specs import JobSpec
from pgqueue_django.states import State
from tests import factories
from tests.model import laws, rows
from tests.model.jobs import ENDINGS, Job, When
from tests.model.rows import Row
from tests.model.tables import Lease, Table

QUEUE = "walk"
TASK = "known"
WORKERS = ("a", "b")
LEASE = 500.0
DELAY = 550.0

ANY_AGE = -500.0
"""Whatever has finished is older."""


class Key(NamedTuple):
    """What tells states apart."""

    state: State | None
    attempts: int
    is_due: bool
    is_expired: bool
    was_claimed: bool
    holds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A state as it was met first: the row to put back, and who holds what."""

    row: str | None
    id: int
    job: Job | None
    held: dict[str, Attempt]

    @property
    def key(self) -> Key:
        """Return what tells it from other states."""
        job = self.job
        holds = tuple(self._holding(worker) for worker in WORKERS)
        if job is None:
            return Key(None, 0, False, False, False, holds)
        expired = job.lease_until is not None and job.lease_until < 0
        due = job.run_at.at <= 0
        return Key(job.state, job.attempts, due, expired, job.ever_claimed, holds)

    def _holding(self, worker: str) -> str:
        attempt = self.held.get(worker)
        if attempt is None:
            return "nothing"
        is_fresh = self.job is not None and self.job.token == attempt.token
        return "the lease" if is_fresh else "a lost lease"


class Edge(NamedTuple):
    """Who did what, and the states before and after it."""

    before: Key
    who: str
    verb: str
    after: Key


@dataclass(slots=True)
class Covered:
    """What a walk has seen."""

    edges: list[Edge] = field(default_factory=list)

    @property
    def states(self) -> set[Key]:
        """Return all states."""
        return {key for edge in self.edges for key in (edge.before, edge.after)}

    def orders(self, length: int) -> int:
        """Return how many orders of so many statements there are, from the first."""
        ends: Counter[Key] = Counter([self.edges[0].before])
        for _ in range(length):
            further: Counter[Key] = Counter()
            for edge in self.edges:
                further[edge.after] += ends[edge.before]
            ends = further
        return ends.total()


class Move(NamedTuple):
    """A statement that somebody can send: it and the model's, compared.

    ``act`` may change who holds what; ``tokens`` are those that it writes under.
    """

    who: str
    verb: str
    act: Callable[[Table, dict[str, Attempt]], None]
    tokens: frozenset[str] = frozenset()


class Walk:
    """Sends every statement from every state.

    Args:
        max_attempts: Of the job; each more is about a third more states.
    """

    def __init__(self, max_attempts: int) -> None:
        self._stack = ExitStack()
        self._spec = JobSpec.build(
            task=TASK, queue=QUEUE, max_attempts=max_attempts, idempotency_key="k"
        )
        self._session = self._open("keeper")
        self._jobs = {worker: self._on(self._open(worker)) for worker in WORKERS}
        self._keeper = self._on(self._session)
        self._person = self._on(self._open("person"))
        self._table = Table()
        self._row: Row | None = None
        self._at: Place | None = None

    def _open(self, name: str) -> WorkerSession:
        session = WorkerSession("default", name=f"pgqueue walk {name}")
        self._stack.callback(session.close)
        return session

    @staticmethod
    def _on(session: WorkerSession) -> JobManager:
        return models.Job.objects.on(session)

    def close(self) -> None:
        """Close the connections."""
        self._stack.close()

    def run(self) -> Covered:
        """Go from state to state until there is no new one."""
        first = self._begin()
        covered, known, ahead = Covered(), {first.key}, deque([first])
        while ahead:
            place = ahead.popleft()
            for move in self._moves(place):
                after = self._go(place, move)
                if after.key not in known:
                    known.add(after.key)
                    ahead.append(self._saved(after))
                edge = Edge(place.key, move.who, move.verb, after.key)
                covered.edges.append(edge)
        return covered

    # --- places -----------------------------------------------------------------------

    def _begin(self) -> Place:
        models.Job.objects.all().delete()
        models.Counter.objects.all().delete()
        id_ = self._person.enqueue(self._spec).id
        self._table.insert(id_, self._spec)
        return self._saved(Place(None, id_, self._table.jobs[id_], {}))

    def _saved(self, place: Place) -> Place:
        found = self._session.rows(_SAVE, {"id": place.id})
        return replace(place, row=found[0][0] if found else None)

    def _put_back(self, place: Place) -> None:
        """Make the row what it was there, unless it is."""
        if self._at is not None and self._at.job == place.job:
            return
        self._session.rows("DELETE FROM pgqueue_job", {})
        if place.row is not None:
            self._session.rows(_RESTORE, {"row": place.row})
        self._row = rows.read(self._session).get(place.id)

    def _go(self, place: Place, move: Move) -> Place:
        self._put_back(place)
        self._table.jobs = {} if place.job is None else {place.id: place.job}
        held = dict(place.held)
        move.act(self._table, held)
        self._judge(move)
        id_ = next(iter(self._table.jobs), place.id)
        self._at = Place(None, id_, self._table.jobs.get(id_), held)
        return self._at

    def _judge(self, move: Move) -> None:
        now = rows.read(self._session)
        rows.assert_agree(self._table, now)
        assert rows.counts(self._session) == self._table.counts
        (row,) = now.values() or (None,)
        if row is not None and self._row is not None and row.id == self._row.id:
            laws.judge_change(move.verb, self._row, row, set(move.tokens))
        self._row = row

    # --- who can do what --------------------------------------------------------------

    def _moves(self, place: Place) -> Iterator[Move]:
        for worker in WORKERS:
            if worker in place.held:
                yield from self._of_holder(worker, place.held[worker])
            else:
                yield from self._of_idle(worker)
        yield from self._of_others()
        yield from self._of_time(place)

    def _of_idle(self, worker: str) -> Iterator[Move]:
        for verb in ("claim", "claim_unserved"):
            yield Move(worker, verb, partial(self._claim, worker, verb))
        yield Move(worker, "set_aside", partial(self._set_aside, worker))

    def _claim(
        self, worker: str, verb: str, table: Table, held: dict[str, Attempt]
    ) -> None:
        tasks = {"tasks": [TASK]} if verb == "claim_unserved" else {}
        claim = getattr(self._jobs[worker], verb)
        got = claim(QUEUE, limit=1, worker=worker, lease=LEASE, **tasks)
        lease = Lease(worker, got[0].token if got else "", LEASE)
        expected = getattr(table, verb)(QUEUE, limit=1, lease=lease, **tasks)
        assert [attempt.id for attempt in got] == expected
        for attempt in got:
            assert attempt.number == table.jobs[attempt.id].attempts
            held[worker] = attempt

    def _set_aside(self, worker: str, table: Table, held: object) -> None:
        """As a worker does that knows no task."""
        moved = self._jobs[worker].set_aside(QUEUE, tasks=[])
        assert moved == table.set_aside(QUEUE, [], 1)

    def _of_holder(self, worker: str, attempt: Attempt) -> Iterator[Move]:
        """Give what it can write; it goes on to think that it holds the lease."""
        tokens = frozenset({attempt.token})
        renew = partial(self._renew, worker, attempt)
        yield Move(worker, "renew", renew, tokens)
        for verb in ENDINGS:
            if verb == "retry" and attempt.number >= attempt.max_attempts:
                continue
            for delay in (0.0, DELAY) if verb in {"retry", "snooze"} else (0.0,):
                detail = "1" if verb == "ack" else factories.FAILURE
                write = Write(attempt, delay, detail)
                yield Move(
                    worker, verb, partial(self._end, worker, verb, write), tokens
                )
        yield Move(worker, "forget", lambda _, held: held.__delitem__(worker))

    def _renew(self, worker: str, attempt: Attempt, table: Table, _: object) -> None:
        real = self._jobs[worker].renew_many([Write(attempt)], lease=LEASE)
        assert real == table.renew([attempt], LEASE)

    def _end(
        self, worker: str, verb: str, write: Write, table: Table, _: object
    ) -> None:
        real = getattr(self._jobs[worker], f"{verb}_many")([write])
        assert real == table.end(verb, [write])

    def _of_others(self) -> Iterator[Move]:
        yield Move("reaper", "reap", self._reap)
        for worker in WORKERS:
            reap = partial(self._reap_dead_worker, worker)
            yield Move(f"supervisor of {worker}", "reap_dead_worker", reap)
            release = partial(self._release_dead_worker, worker)
            yield Move(f"supervisor of {worker}", "release_dead_worker", release)
        yield Move("promoter", "promote", self._promote)
        for verb in ("cancel", "requeue"):
            yield Move("person", verb, partial(self._ask, verb))
        yield Move("pruner", "prune", self._prune)
        yield Move("producer", "enqueue", self._enqueue)

    def _reap(self, table: Table, _: object) -> None:
        reaped = [job.id for job in self._keeper.reap()]
        assert reaped == table.reap(1_000)
        rows.pin_waits(self._session, reaped)

    def _reap_dead_worker(self, worker: str, table: Table, _: object) -> None:
        reaped = [job.id for job in self._keeper.reap_dead_worker(worker)]
        assert reaped == table.reap_dead_worker(worker)
        rows.pin_waits(self._session, reaped)

    def _release_dead_worker(self, worker: str, table: Table, _: object) -> None:
        released = self._keeper.release_dead_worker(worker, besides=[])
        assert released == table.release_dead_worker(worker)

    def _promote(self, table: Table, _: object) -> None:
        assert self._keeper.promote() == table.promote()

    def _ask(self, verb: str, table: Table, _: object) -> None:
        ids = list(table.jobs)
        assert getattr(self._person, f"{verb}_many")(ids) == getattr(table, verb)(ids)

    def _prune(self, table: Table, _: object) -> None:
        assert self._keeper.prune(older_than=ANY_AGE) == table.prune(ANY_AGE)

    def _enqueue(self, table: Table, _: object) -> None:
        """Ask for the same again, by its key."""
        found = table.having_key(self._spec)
        enqueued = self._person.enqueue(self._spec)
        assert enqueued.created == (found is None)
        if enqueued.created:
            table.insert(enqueued.id, self._spec)
        else:
            assert enqueued.id == found

    # --- time -------------------------------------------------------------------------

    def _of_time(self, place: Place) -> Iterator[Move]:
        job = place.job
        if job is None:
            return
        if job.state == State.RUNNING and not place.key.is_expired:
            ended = replace(job, lease_until=-1.0)
            yield Move("clock", "lease ends", partial(self._tick, _LEASE_ENDS, ended))
        if job.state == State.SCHEDULED and not place.key.is_due:
            due = replace(job, run_at=When(-1.0, 0))
            yield Move("clock", "falls due", partial(self._tick, _FALLS_DUE, due))

    def _tick(
        self, statement: LiteralString, job: Job, table: Table, _: object
    ) -> None:
        self._session.rows(statement, {})
        (id_,) = table.jobs
        table.jobs[id_] = job
        self._row = rows.read(self._session)[id_]


_LEASE_ENDS: LiteralString = """
UPDATE pgqueue_job SET lease_expires_at = statement_timestamp() - interval '1 s'
"""

_FALLS_DUE: LiteralString = """
UPDATE pgqueue_job SET run_at = statement_timestamp() - interval '1 s'
"""

_SAVE: LiteralString = """
SELECT (to_jsonb(job) || jsonb_build_object('saved_at', statement_timestamp()))::text
FROM pgqueue_job AS job
WHERE id = %(id)s
"""

# Its instants are as far from now as they were then.
_RESTORE: LiteralString = """
INSERT INTO pgqueue_job
SELECT (jsonb_populate_record(NULL::pgqueue_job, saved.row || (
    SELECT jsonb_object_agg(
        key, value::timestamptz + (statement_timestamp() - saved.at)
    )
    FROM jsonb_each_text(saved.row)
    WHERE right(key, 3) = '_at' AND value IS NOT NULL
))).*
FROM (
    SELECT given.row, (given.row ->> 'saved_at')::timestamptz AS at
    FROM (SELECT %(row)s::jsonb AS row) AS given
) AS saved
"""
