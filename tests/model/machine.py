"""Hypothesis drives the real verbs and the model side by side, and compares.

Several workers, each on its own connection, claim and write of any attempt that they
ever made, however stale; they die, and their connections break. Producers and people
use Django's connection. Now and then somebody holds rows' locks for a while.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar, LiteralString, NamedTuple
from uuid import uuid4

import pytest
from django.db import Error, transaction
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from pgqueue_django import models
from pgqueue_django.attempts import Attempt, Write, Written
from pgqueue_django.attempts import Place as JobPlace
from pgqueue_django.db import WorkerSession
from pgqueue_django.exceptions import IdempotencyConflict
from pgqueue_django.managers import counters
from pgqueue_django.managers.jobs import JobManager, Reaped
from pgqueue_django.specs import JobSpec
from tests import factories
from tests.model import laws, rows
from tests.model.acts import QUEUES, TASKS, WORKERS, Act, acts, some_specs
from tests.model.rows import Row
from tests.model.tables import Lease, Place, Table

_CONFLICT = -1


def bounded(examples: int, **more: Any) -> settings:
    """Return settings for so many examples of 40 steps, the same ones each time."""
    given: dict[str, Any] = {
        "derandomize": True,
        "stateful_step_count": 40,
        "deadline": None,
        "database": None,
        "suppress_health_check": list(HealthCheck),
    }
    return settings(max_examples=examples, **(given | more))


class Made(NamedTuple):
    """An attempt, who made it, and where the job stood in its queue at what time."""

    attempt: Attempt
    worker: int
    place: Place
    at: float


class World:
    """Connections that outlive the examples; ``seen`` counts what happened."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.workers = [self._session(f"worker {n}") for n in WORKERS]
        self.keeper = self._session("keeper")
        self.locker = self._session("locker")
        self.seen: Counter[str] = Counter()

    def _session(self, name: str) -> WorkerSession:
        session = WorkerSession("default", name=f"pgqueue model {name}")
        self._stack.callback(session.close)
        return session

    def close(self) -> None:
        self._stack.close()


class Machine(RuleBasedStateMachine):
    """The rules; ``world`` is set on a subclass before it runs."""

    world: ClassVar[World]

    @initialize(specs=some_specs)
    def begin(self, specs: list[JobSpec]) -> None:
        models.Job.objects.all().delete()
        models.Counter.objects.all().delete()
        self.table = Table()
        self.names = [_new_name(n) for n in WORKERS]
        self.made: list[Made] = []
        self.tokens: set[str] = set()
        self.lock = ExitStack()
        self.before: dict[int, Row] = {}
        self.world.seen["examples"] += 1
        self.did("enqueue")
        self.enqueue_many(specs)

    def teardown(self) -> None:
        self.lock.close()

    @rule(act=acts)
    def step(self, act: Act) -> None:
        """Let somebody do something: the method of that name."""
        name, given = act
        getattr(self, name)(**given)

    def did(self, verb: str, writes: Iterable[Write] = ()) -> None:
        """Say what the last step did, for the laws."""
        self.verb = verb
        self.world.seen[verb] += 1
        self.writers = {write.attempt.token for write in writes}

    def jobs(self, worker: int) -> JobManager:
        return models.Job.objects.on(self.world.workers[worker])

    def keeper(self) -> JobManager:
        return models.Job.objects.on(self.world.keeper)

    # --- producers --------------------------------------------------------------------

    def produce(self, specs: list[JobSpec], kept: bool) -> None:
        """Enqueue; or begin to, in a transaction that is undone."""
        self.did("enqueue")
        with transaction.atomic():
            if len(specs) == 1:
                self.enqueue(specs[0], kept)
            else:
                self.enqueue_many(specs, kept)
            transaction.set_rollback(not kept)

    def enqueue(self, spec: JobSpec, kept: bool) -> None:
        (expected,) = self.table.ids_of_batch([spec]) or [_CONFLICT]
        if expected == _CONFLICT:
            with pytest.raises(IdempotencyConflict):
                models.Job.objects.enqueue(spec)
            return
        enqueued = models.Job.objects.enqueue(spec)
        assert enqueued.created == (expected is None)
        self.enqueued([enqueued.id], [expected], [spec], kept)

    def enqueue_many(self, specs: list[JobSpec], kept: bool = True) -> None:
        """All or nothing: a key that is another call's undoes the batch."""
        expected = self.table.ids_of_batch(specs)
        if expected is None:
            with pytest.raises(IdempotencyConflict):
                models.Job.objects.enqueue_many(specs)
            return
        ids = models.Job.objects.enqueue_many(specs)
        self.enqueued(ids, expected, specs, kept)

    def enqueued(
        self,
        ids: list[int],
        expected: list[int | None],
        specs: list[JobSpec],
        kept: bool,
    ) -> None:
        self.table.instant()
        for id_, known, spec in zip(ids, expected, specs, strict=True):
            assert known in (None, id_)
            if kept and id_ not in self.table.jobs:
                self.table.insert(id_, spec)
                self.world.seen["jobs"] += 1

    # --- claims -----------------------------------------------------------------------

    def claim(
        self, how: str, worker: int, limit: int, seconds: float, pick: int
    ) -> None:
        """Claim what waits; or what stands aside; or go on behind an earlier claim."""
        self.did(how)
        if how in ("claim_on", "claim_along"):
            getattr(self, how)(worker, limit, seconds, pick)
            return
        for queue in QUEUES:
            if how == "claim":
                self.claim_waiting(worker, queue, limit, seconds)
            else:
                self.claim_unserved(worker, queue, limit, seconds)

    def claim_waiting(
        self, worker: int, queue: str, limit: int, seconds: float
    ) -> None:
        got = self.jobs(worker).claim(
            queue, limit=limit, worker=self.names[worker], lease=seconds
        )
        lease = self.lease(worker, got, seconds)
        self.took(worker, got, partial(self.table.claim, queue, limit, lease))

    def claim_on(self, worker: int, limit: int, seconds: float, pick: int) -> None:
        if not self.made:
            return
        made = self.made[-1 - pick % len(self.made)]
        queue = made.attempt.queue
        got = self.jobs(worker).claim(
            queue,
            limit=limit,
            worker=self.names[worker],
            lease=seconds,
            after=self.place_now(made),
        )
        lease = self.lease(worker, got, seconds)
        self.took(
            worker, got, partial(self.table.claim, queue, limit, lease, made.place)
        )

    def claim_along(self, worker: int, limit: int, seconds: float, pick: int) -> None:
        """Claim from all queues at once; behind an earlier claim where one is known."""
        queues = QUEUES if pick % 2 else QUEUES[::-1]
        made = {each.attempt.queue: each for each in self.made[-1 - pick % 3 :]}
        got = self.jobs(worker).claim_along(
            {q: self.place_now(made[q]) if q in made else None for q in queues},
            limit=limit,
            worker=self.names[worker],
            lease=seconds,
        )
        lease = self.lease(worker, got, seconds)

        def expected() -> list[int]:
            ids: list[int] = []
            for queue in queues:
                after = made[queue].place if queue in made else None
                ids += self.table.claim(queue, limit - len(ids), lease, after)
            return ids

        self.took(worker, got, expected)

    def place_now(self, made: Made) -> JobPlace:
        """Return where an attempt stood, by instants that have moved since then."""
        place = made.attempt.place
        passed = timedelta(seconds=self.table.now - made.at)
        run_at = datetime.fromisoformat(place.run_at) - passed
        return place._replace(run_at=str(run_at))

    def claim_unserved(
        self, worker: int, queue: str, limit: int, seconds: float
    ) -> None:
        tasks = list(TASKS)
        got = self.jobs(worker).claim_unserved(
            queue, tasks=tasks, limit=limit, worker=self.names[worker], lease=seconds
        )
        lease = self.lease(worker, got, seconds)
        self.took(
            worker,
            got,
            partial(self.table.claim_unserved, queue, tasks, limit, lease),
        )

    def lease(self, worker: int, got: list[Attempt], seconds: float) -> Lease:
        """Return what a claim gave: one token for all of it, and a new one."""
        token = got[0].token if got else str(uuid4())
        assert token not in self.tokens
        assert {attempt.token for attempt in got} <= {token}
        self.tokens.add(token)
        return Lease(self.names[worker], token, seconds)

    def took(
        self, worker: int, got: list[Attempt], expected: Callable[[], list[int]]
    ) -> None:
        places = {attempt.id: self.table.place(attempt.id) for attempt in got}
        assert [attempt.id for attempt in got] == expected()
        for attempt in got:
            job = self.table.jobs[attempt.id]
            known = (job.task, job.attempts, job.max_attempts)
            assert (attempt.task, attempt.number, attempt.max_attempts) == known
            place = places[attempt.id]
            self.made.append(Made(attempt, worker, place, self.table.now))
        self.world.seen["claims"] += len(got)

    # --- under a lease, or what its holder takes for one ------------------------------

    def write(self, verb: str, picks: list[int], delay: float, seconds: float) -> None:
        if not self.made:
            return
        worker, attempts = self.some_of_one_worker(picks)
        if verb == "retry":
            attempts = [a for a in attempts if a.number < a.max_attempts]
        detail = '"done"' if verb == "ack" else factories.FAILURE
        writes = [Write(attempt, delay, detail) for attempt in attempts]
        self.did(verb, writes)
        if verb == "renew":
            answer = self.jobs(worker).renew_many(writes, lease=seconds)
            self.answered(answer, self.table.renew(attempts, seconds))
        else:
            self.end(worker, verb, writes)

    def end(self, worker: int, verb: str, writes: list[Write]) -> None:
        """End attempts; the answer gets lost, so that the worker writes it again."""
        write = getattr(self.jobs(worker), f"{verb}_many")
        answer = write(writes)
        self.answered(answer, self.table.end(verb, writes))
        if verb == "ack":
            self.world.seen["succeeded"] += len(answer.done)
        if answer.done:
            again = write(w for w in writes if w.attempt in answer.done)
            assert sorted(again.lost) == sorted(answer.done)
            self.are_recorded(worker, answer.done)

    def are_recorded(self, worker: int, attempts: list[Attempt]) -> None:
        for queue in {attempt.queue for attempt in attempts}:
            of_queue = [a for a in attempts if a.queue == queue]
            recorded = self.jobs(worker).recorded(of_queue, worker=self.names[worker])
            assert recorded == {attempt.id for attempt in of_queue}

    def some_of_one_worker(self, picks: list[int]) -> tuple[int, list[Attempt]]:
        chosen = [self.made[-1 - pick % len(self.made)] for pick in picks]
        worker = chosen[0].worker
        attempts = {made.attempt: None for made in chosen if made.worker == worker}
        return worker, list(attempts)

    def answered(self, real: Written, expected: Written) -> None:
        for found, wanted in zip(real, expected, strict=True):
            assert sorted(found) == sorted(wanted)
        self.world.seen["refused"] += len(real.lost)

    # --- faults, and time -------------------------------------------------------------

    def trouble(self, kind: str, worker: int, picks: list[int]) -> None:
        self.did("")
        if kind == "death":
            self.die(worker)
        elif kind == "death that a supervisor sees":
            name = self.names[worker]
            self.die(worker)
            self.did("reap_dead_worker")
            reaped = self.keeper().reap_dead_worker(name)
            self.reaped(reaped, self.table.reap_dead_worker(name))
        elif kind == "broken connection":
            self.break_connection(worker)
        elif self.table.locked:
            self.unlock_rows()
        else:
            self.lock_rows(picks)

    def die(self, worker: int) -> None:
        """End a worker, with all that it knew; another takes its place."""
        self.names[worker] = _new_name(worker)
        self.made = [made for made in self.made if made.worker != worker]
        self.world.workers[worker].close()

    def break_connection(self, worker: int) -> None:
        """Let a statement fail, which then does nothing; the next one works."""
        session = self.world.workers[worker]
        pid = session.rows("SELECT pg_backend_pid()", {})[0][0]
        self.world.keeper.rows(
            "SELECT pg_terminate_backend(%(pid)s, 10000)", {"pid": pid}
        )
        with pytest.raises(Error):
            self.jobs(worker).claim(
                QUEUES[0], limit=9, worker=self.names[worker], lease=150.0
            )

    def lock_rows(self, picks: list[int]) -> None:
        """Hold rows, as an open transaction does: workers pass them by."""
        ids = list(self.some_ids(picks) & set(self.table.jobs))
        self.lock.enter_context(self.world.locker.atomic())
        self.world.locker.rows(
            "SELECT FROM pgqueue_job WHERE id = ANY(%(ids)s) ORDER BY id FOR UPDATE",
            {"ids": ids},
        )
        self.table.locked = set(ids)

    def unlock_rows(self) -> None:
        self.lock.close()
        self.table.locked = set()

    def pass_time(self, seconds: float) -> None:
        self.did("")
        self.unlock_rows()
        rows.advance(self.world.keeper, seconds)
        self.table.now += seconds
        self.before = rows.read(self.world.keeper)

    # --- maintenance and people -------------------------------------------------------

    def maintain(self, verb: str, limit: int, queue: str, age: float) -> None:
        self.did(verb)
        if verb == "promote":
            assert self.keeper().promote() == self.table.promote()
        elif verb == "reap":
            self.reaped(self.keeper().reap(limit), self.table.reap(limit))
        elif verb == "set_aside":
            moved = self.keeper().set_aside(queue, tasks=[TASKS[0]], depth=limit)
            assert moved == self.table.set_aside(queue, [TASKS[0]], limit)
        elif verb == "prune":
            assert self.keeper().prune(older_than=age) == self.table.prune(age)
        else:
            self.merge_counters()

    def reaped(self, real: list[Reaped], expected: list[int]) -> None:
        ids = [job.id for job in real]
        assert sorted(ids) == sorted(expected)
        rows.pin_waits(self.world.keeper, ids)
        self.world.seen["interrupted"] += len(ids)

    def merge_counters(self) -> None:
        session = self.world.keeper
        session.rows(_AGE_COUNTERS, {})
        while grains := counters.mergeable(session):
            for grain in grains:
                counters.merge(session, grain, limit=1_000)

    def ask(self, verb: str, picks: list[int]) -> None:
        """Do what a person asks for, by ids."""
        self.did(verb)
        ids = self.some_ids(picks) - self.table.locked
        real = getattr(models.Job.objects, f"{verb}_many")(ids)
        assert real == getattr(self.table, verb)(ids)

    def some_ids(self, picks: list[int]) -> set[int]:
        """Return ids of jobs, and of one that is not there."""
        ids = [*sorted(self.table.jobs, reverse=True), 0]
        return {ids[pick % len(ids)] for pick in picks}

    # --- after each step --------------------------------------------------------------

    @invariant()
    def all_is_as_the_model_has_it(self) -> None:
        now = rows.read(self.world.keeper)
        for id_, row in now.items():
            if before := self.before.get(id_):
                laws.judge_change(self.verb, before, row, self.writers)
            laws.judge_row(row)
        rows.assert_agree(self.table, now)
        self.before = now
        self.world.seen["steps"] += 1
        assert rows.counts(self.world.keeper) == self.table.counts


_AGE_COUNTERS: LiteralString = """
UPDATE pgqueue_counter SET starts_at = starts_at - interval '400 days'
WHERE starts_at > statement_timestamp() - interval '1 day'
"""


def machine_in(world: World) -> type[Machine]:
    """Return a class of machines that use these connections."""
    return type("MachineIn", (Machine,), {"world": world})


def _new_name(worker: int) -> str:
    return f"w{worker}-{uuid4().hex[:6]}"
