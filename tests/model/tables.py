"""The model of the table: which jobs each verb takes, and what it must answer."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pgqueue_django.attempts import Attempt, Write, Written
from pgqueue_django.events import Event
from pgqueue_django.specs import JobSpec
from pgqueue_django.states import FINISHED, LIVE, State
from tests.model import jobs as life
from tests.model.jobs import Job, When

Place = tuple[int, When, int]
"""Priority, negative; ``run_at``; id."""


class Lease(NamedTuple):
    """What a claim gives: to whom, under which token, for how long (seconds)."""

    worker: str
    token: str
    seconds: float


class Counted(NamedTuple):
    """What is counted."""

    queue: str
    task: str
    event: str


@dataclass(slots=True)
class Table:
    """All jobs by id, the model's time, the rows that somebody has locked, the counts.

    A method does what the verb of that name does, and returns what it must answer.
    """

    jobs: dict[int, Job] = field(default_factory=dict)
    now: float = 0.0
    mark: int = 0
    locked: set[int] = field(default_factory=set)
    counts: Counter[Counted] = field(default_factory=Counter)

    # --- producers --------------------------------------------------------------------

    def insert(self, id_: int, spec: JobSpec) -> None:
        """Have a new job; ``instant()`` is to be moved on before, once a statement."""
        assert id_ not in self.jobs
        self.jobs[id_] = Job(
            queue=spec.queue,
            task=spec.task,
            call=spec.kwargs,
            priority=spec.priority,
            max_attempts=spec.max_attempts,
            key=spec.idempotency_key,
            unique_key=spec.unique_key,
            run_at=When(self.now + spec.delay, self.mark),
            state=life.waiting(spec.delay),
        )

    def having_key(self, spec: JobSpec) -> int | None:
        """Return the job that has a spec's key; of a unique one, the live job."""
        for id_, job in self.jobs.items():
            if job.queue != spec.queue:
                continue
            if spec.idempotency_key and job.key == spec.idempotency_key:
                return id_
            live_key = job.unique_key if job.state in LIVE else None
            if spec.unique_key and live_key == spec.unique_key:
                return id_
        return None

    def ids_of_batch(self, specs: list[JobSpec]) -> list[int | None] | None:
        """Return which jobs a batch finds by their keys; None if one is another call's.

        A key that is new, and comes twice, is the first one's.
        """
        found: list[int | None] = []
        new: dict[tuple[str, str], JobSpec] = {}
        for spec in specs:
            id_ = self.having_key(spec)
            if id_ is not None and not self.same_call(id_, spec):
                return None
            if id_ is None and spec.idempotency_key is not None:
                first = new.setdefault((spec.queue, spec.idempotency_key), spec)
                if (first.task, first.kwargs) != (spec.task, spec.kwargs):
                    return None
            found.append(id_)
        return found

    def same_call(self, id_: int, spec: JobSpec) -> bool:
        """Tell whether a job is the call that a spec asks for, where it must be."""
        job = self.jobs[id_]
        same = (job.task, job.call) == (spec.task, spec.kwargs)
        return same or spec.unique_key is not None

    # --- claims -----------------------------------------------------------------------

    def claim(
        self, queue: str, limit: int, lease: Lease, after: Place | None = None
    ) -> list[int]:
        """Take the most urgent ones; or those behind a place, at its priority."""
        free = self._free(queue, State.QUEUED)
        if after is not None:
            places = [(self.place(i), i) for i in free]
            free = [i for place, i in places if place[0] == after[0] and place > after]
        return self._take(free[:limit], lease)

    def claim_unserved(
        self, queue: str, tasks: list[str], limit: int, lease: Lease
    ) -> list[int]:
        """Take jobs set aside: task by task, the oldest first."""
        aside = sorted(self._free(queue, State.UNSERVED))
        found = [i for task in tasks for i in aside if self.jobs[i].task == task]
        return self._take(sorted(found[:limit], key=self.place), lease)

    def _free(self, queue: str, state: State) -> list[int]:
        found = (i for i, job in self._those(state) if job.queue == queue)
        return sorted((i for i in found if i not in self.locked), key=self.place)

    def _those(self, state: State) -> list[tuple[int, Job]]:
        return [(i, job) for i, job in self.jobs.items() if job.state == state]

    def place(self, id_: int) -> Place:
        """Return where a job stands in the order of claims."""
        job = self.jobs[id_]
        return -job.priority, job.run_at, id_

    def _take(self, ids: list[int], lease: Lease) -> list[int]:
        until = self.now + lease.seconds
        for id_ in ids:
            job = self.jobs[id_]
            if not job.ever_claimed:
                self._count(job, Event.STARTED)
            self.jobs[id_] = life.claimed(job, lease.worker, lease.token, until)
        return ids

    def set_aside(self, queue: str, tasks: list[str], depth: int) -> int:
        """Move jobs of unknown tasks out of the head of a queue."""
        head = [i for i, job in self._those(State.QUEUED) if job.queue == queue]
        moved = [
            i
            for i in sorted(head, key=self.place)[:depth]
            if i not in self.locked and self.jobs[i].task not in tasks
        ]
        for id_ in moved:
            self.jobs[id_] = replace(self.jobs[id_], state=State.UNSERVED)
        return len(moved)

    # --- under a lease ----------------------------------------------------------------

    def renew(self, attempts: Iterable[Attempt], seconds: float) -> Written:
        """Make the leases that are held last for so long from now."""
        until = self.now + seconds

        def renewed(job: Job, write: Write, now: When) -> Job:
            return replace(job, lease_until=until)

        return self._write(map(Write, attempts), renewed, None)

    def end(self, verb: str, writes: Iterable[Write]) -> Written:
        """Do one of ``life.ENDINGS``."""
        return self._write(writes, *life.ENDINGS[verb])

    def _write(
        self, writes: Iterable[Write], change: life.Ending, event: Event | None
    ) -> Written:
        answer, now = Written([], [], []), self.instant()
        for write in writes:
            attempt = write.attempt
            job = self.jobs.get(attempt.id)
            if job is None or job.token != attempt.token:
                answer.lost.append(attempt)
            elif attempt.id in self.locked:
                answer.busy.append(attempt)
            else:
                answer.done.append(attempt)
                self.jobs[attempt.id] = change(job, write, now)
                if event:
                    self._count(job, event)
        return answer

    # --- everybody --------------------------------------------------------------------

    def promote(self) -> dict[str, int]:
        """Queue what is due."""
        due = [
            (i, job)
            for i, job in self._those(State.SCHEDULED)
            if job.run_at.at <= self.now and i not in self.locked
        ]
        for id_, job in due:
            self.jobs[id_] = replace(job, state=State.QUEUED)
        return dict(Counter(job.queue for _, job in due))

    def reap(self, limit: int) -> list[int]:
        """Take away what has an old lease, in the order of queue and id."""
        return self._reap(
            lambda job: job.lease_until is not None and job.lease_until < self.now,
            limit,
        )

    def reap_dead_worker(self, worker: str) -> list[int]:
        """Take away what a dead worker held."""
        return self._reap(lambda job: job.worker == worker)

    def release_dead_worker(self, worker: str) -> int:
        """Give back what a worker held that was killed for other jobs."""
        now = self.instant()
        ids = [
            i
            for i, job in self._those(State.RUNNING)
            if job.worker == worker and i not in self.locked
        ]
        for id_ in ids:
            self.jobs[id_] = life.released(self.jobs[id_], None, now)
        return len(ids)

    def _reap(self, lost: Callable[[Job], bool], limit: int | None = None) -> list[int]:
        running = sorted((job.queue, i) for i, job in self._those(State.RUNNING))
        ids = [i for _, i in running if lost(self.jobs[i]) and i not in self.locked][
            :limit
        ]
        return self._change(ids, life.reaped)

    def cancel(self, ids: Iterable[int]) -> set[int]:
        """End those that live."""
        live = [i for i in ids if i in self.jobs and self.jobs[i].state in LIVE]
        return set(self._change(live, life.cancelled))

    def requeue(self, ids: Iterable[int]) -> set[int]:
        """Let the dead among them begin anew; the newest of each free key."""
        dead = [i for i in ids if i in self.jobs and self.jobs[i].state == State.DEAD]
        taken = {
            (job.queue, job.unique_key)
            for job in self.jobs.values()
            if job.state in LIVE
        }
        newest = {
            (self.jobs[i].queue, self.jobs[i].unique_key or i): i for i in sorted(dead)
        }
        free = [i for place, i in newest.items() if place not in taken]
        return set(self._change(free, life.requeued))

    def prune(self, older_than: float) -> int:
        """Forget what finished longer ago than so many seconds."""
        before = self.now - older_than
        old = [
            i
            for i, job in self.jobs.items()
            if job.finished_at is not None
            and job.finished_at < before
            and i not in self.locked
        ]
        for id_ in old:
            assert self.jobs.pop(id_).state in FINISHED
        return len(old)

    def _change(
        self, ids: list[int], change: Callable[[Job, When], tuple[Job, Event]]
    ) -> list[int]:
        now = self.instant()
        for id_ in ids:
            job = self.jobs[id_]
            self.jobs[id_], event = change(job, now)
            self._count(job, event)
        return ids

    def _count(self, job: Job, event: Event) -> None:
        self.counts[Counted(job.queue, job.task, str(event))] += 1

    def instant(self) -> When:
        """Begin a statement: its time is later than that of those before it."""
        self.mark += 1
        return When(self.now, self.mark)
