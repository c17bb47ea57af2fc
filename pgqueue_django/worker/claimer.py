"""Takes due jobs for free threads, and free slots of the event loop."""

from collections.abc import Callable, Iterable
from threading import Lock
from time import monotonic

from pgqueue_django import signals
from pgqueue_django.attempts import Attempt, Place, Write
from pgqueue_django.db import Session
from pgqueue_django.models import Job
from pgqueue_django.pace import Pace
from pgqueue_django.registry import registry
from pgqueue_django.worker.leases import Leases
from pgqueue_django.worker.options import Queues
from pgqueue_django.worker.patience import Patience
from pgqueue_django.worker.places import QueuePlace, Throttle
from pgqueue_django.worker.pools import Room

# Time between two looks for jobs that other workers set aside (seconds).
_UNSERVED_INTERVAL = 20.0

# Up to so many queues a look at each costs less than the question which have due jobs.
_FEW = 3

# How soon to look for room again when there was none (seconds); no query is made.
_NO_ROOM_WAIT = 0.1

# How many jobs at the head of a queue are looked at for some tasks' only: a millisecond
# or two, and more than threads begin in the time of a few looks.
_TASKS_DEPTH = 1_000

# How many jobs at the head of a queue are looked at for unknown tasks at once.
_ASIDE_DEPTH = 5_000


class Claimer:
    """Claims as many jobs as there is room for, where there may be some.

    A queue is *open* while it may have due jobs: after a hint, at each poll, and as
    long as claims from it come back full. It is *half open* while it may have due jobs,
    but none of those tasks for which alone there was room.

    Args:
        session: The claimer's own.
        leases: Where claimed jobs are noted.
        queues: What to serve, in which order.
        identity: The worker's.
        lease: Length of a lease (seconds).
        pace: When to look without a reason.
        room: Returns what may be taken now.
        dispatch: Takes the claimed attempts, and whether they came of all tasks.
    """

    name = "claimer"

    def __init__(
        self,
        session: Session,
        leases: Leases,
        *,
        queues: Queues,
        identity: str,
        lease: float,
        pace: Pace,
        room: Callable[[], Room],
        dispatch: Callable[[list[Attempt], bool], None],
    ) -> None:
        self._session = session
        self._jobs = Job.objects.on(session)
        self._leases = leases
        self._queues = queues
        self._identity = identity
        self._lease = lease
        self._pace = pace
        self._room = room
        self._dispatch = dispatch
        self._lock = Lock()
        self._open: set[str] = set(queues.names)
        self._wait: dict[str, float] = {}
        self._heard: set[str] = set()
        self._patience = Patience()
        self._places = {queue: QueuePlace() for queue in queues.names}
        self._half_open: set[str] = set()
        self._looked_for: tuple[str, ...] | None = None
        self._throttle = Throttle()
        self._next_unserved = 0.0
        self._looking = False

    @property
    def any_open(self) -> bool:
        """Whether any queue may have due jobs."""
        return bool(self._open or self._half_open)

    @property
    def all_empty(self) -> bool:
        """Whether the last look is over, and found no due job in any queue."""
        return not self.any_open and not self._looking

    def hint(self, queues: Iterable[str]) -> bool:
        """Note that queues may have due jobs; return whether one is served here."""
        served = self._queues.names.intersection(queues)
        with self._lock:
            self._open |= served
            for queue in served & self._wait.keys():
                del self._wait[queue]
        return bool(served)

    def heard(self, queue: str) -> bool:
        """Note a hint that other workers have too; return whether it is served here."""
        if queue not in self._queues.names:
            return False
        wait = self._patience.wait()
        with self._lock:
            self._heard.add(queue)
            if queue not in self._open or wait < self._time_left(queue):
                self._open.add(queue)
                self._wait[queue] = monotonic() + wait
        return True

    def run_once(self) -> float:
        """Claim from each open queue while there is room."""
        self._looking = True
        try:
            return self._look()
        finally:
            self._looking = False

    def close(self) -> None:
        """Close the connection; all queues may have due jobs again."""
        self._session.close()
        self.hint(self._queues.names)

    def _look(self) -> float:
        self._poll()
        room = self._room()
        self._open_for(room)
        if room.tasks is None:
            self._claim(room.jobs)
        elif self._throttle.wait <= 0:
            since = monotonic()
            self._claim_tasks(room.tasks)
            self._throttle.looked(since)
        return self._time_to_next()

    def _time_to_next(self) -> float:
        until_poll = self._pace.left
        if not self.any_open:
            return until_poll
        room = self._room()
        if room.jobs <= 0:
            # It comes back without a word when outcomes are recorded or leases renewed.
            return min(_NO_ROOM_WAIT, until_poll)
        self._open_for(room)
        next_open = min(map(self._time_left, tuple(self._open)), default=until_poll)
        if room.tasks is not None:
            next_open = max(next_open, self._throttle.wait)
        return max(0.0, min(until_poll, next_open))

    def _poll(self) -> None:
        now = monotonic()
        if self._pace.left <= 0:
            self._pace.looked()
            self.hint(self._queues.names)
        if now >= self._next_unserved and self._room().jobs > 0:
            self._next_unserved = now + _UNSERVED_INTERVAL
            names = self._queues.order()
            for queue in self._jobs.unserved_queues(names, tasks=registry.names()):
                self._claim_unserved(queue)

    def _open_for(self, room: Room) -> None:
        """Open what is half open, if there is room for other tasks now."""
        if room.jobs > 0 and room.tasks != self._looked_for:
            self._looked_for = room.tasks
            with self._lock:
                self._open |= self._half_open
                self._half_open.clear()

    def _time_left(self, queue: str) -> float:
        """Return how long an open queue is still left alone (seconds)."""
        return self._wait.get(queue, 0.0) - monotonic()

    def _close_open(self) -> list[str]:
        """Take the open queues as empty until told otherwise; return them in order."""
        # Before the claim: a hint that comes during it opens its queue again.
        with self._lock:
            names = [
                queue
                for queue in self._queues.order()
                if queue in self._open and self._time_left(queue) <= 0
            ]
            self._open.difference_update(names)
            for queue in names:
                self._wait.pop(queue, None)
        return names

    def _claim(self, limit: int) -> None:
        """Claim from one open queue after the other, as far as there is room."""
        if limit <= 0 or not (queues := self._close_open()):
            return
        starts = {queue: self._places[queue].start for queue in queues}
        since = monotonic()
        claimed = self._jobs.claim_along(
            starts, limit=limit, worker=self._identity, lease=self._lease
        )
        self._take(claimed, since, mixed=True)
        if len(claimed) == limit:
            # There may be more in the queue of the last one, where the look ended.
            last = queues.index(claimed[-1].queue)
            self.hint(queues[last:])
            queues = queues[: last + 1]
        ends = {attempt.queue: attempt for attempt in claimed}
        for queue in queues:
            end = ends.get(queue)
            self._looked(queue, starts[queue], end.place if end else None, since)

    def _looked(
        self, queue: str, start: Place | None, end: Place | None, since: float
    ) -> None:
        """Note a look at a queue: where it began, and at which job it ended, if any."""
        here = self._places[queue]
        self._learn(queue, found=end is not None)
        if end is not None:
            here.moved(end)
        emptied = queue not in self._open
        if start is None:
            here.looked_from_head(since, emptied=emptied)
        elif emptied:
            self._reopen(queue, here.found_end())

    def _claim_tasks(self, tasks: tuple[str, ...]) -> None:
        """Claim jobs of some tasks from one open queue after the other."""
        queues = self._close_open()
        if len(queues) > _FEW:
            due = set(self._jobs.due_queues(queues))
            queues = [queue for queue in queues if queue in due]
        for position, queue in enumerate(queues):
            room = self._room()
            # For other tasks all begins anew: the queues have an order for each kind.
            if room.jobs <= 0 or room.tasks != tasks:
                self.hint(queues[position:])
                break
            self._claim_tasks_of(queue, room.jobs, tasks)

    def _claim_tasks_of(self, queue: str, limit: int, tasks: tuple[str, ...]) -> None:
        """Claim jobs of some tasks, and leave the queue half open for the others."""
        since = monotonic()
        claimed = self._jobs.claim_tasks(
            queue,
            tasks=tasks,
            depth=_TASKS_DEPTH,
            limit=limit,
            worker=self._identity,
            lease=self._lease,
        )
        self._take(claimed, since, mixed=False)
        if len(claimed) == limit:
            self.hint([queue])
        with self._lock:
            self._half_open.add(queue)

    def _learn(self, queue: str, *, found: bool) -> None:
        if found:
            self._patience.won()
        elif queue in self._heard:
            self._patience.lost()
        self._heard.discard(queue)

    def _reopen(self, queue: str, wait: float) -> None:
        """Come back to a queue after a while, unless a hint comes first."""
        with self._lock:
            if queue not in self._open:
                self._open.add(queue)
                self._wait[queue] = monotonic() + wait

    def _claim_unserved(self, queue: str) -> None:
        room = self._room()
        if room.jobs <= 0:
            return
        since = monotonic()
        claimed = self._jobs.claim_unserved(
            queue,
            tasks=registry.names() if room.tasks is None else room.tasks,
            limit=room.jobs,
            worker=self._identity,
            lease=self._lease,
        )
        if len(claimed) == room.jobs:
            self._next_unserved = since
        self._take(claimed, since, mixed=False)

    def _take(self, claimed: list[Attempt], since: float, *, mixed: bool) -> None:
        names = {attempt.task for attempt in claimed}
        unknown = {name for name in names if registry.find(name) is None}
        known = [attempt for attempt in claimed if attempt.task not in unknown]
        if known:
            self._leases.add(known, since)
            self._dispatch(known, mixed)
        if unknown:
            self._set_aside([attempt for attempt in claimed if attempt.task in unknown])

    def _set_aside(self, unknown: list[Attempt]) -> None:
        self._jobs.park_many(map(Write, unknown))
        for queue, task in sorted({(one.queue, one.task) for one in unknown}):
            signals.task_unknown.send_robust(Claimer, task=task, queue=queue)
        # Where there are some there are often many: the rest of them goes in bulk.
        queues = {one.queue for one in unknown}
        for queue in queues:
            self._jobs.set_aside(queue, tasks=registry.names(), depth=_ASIDE_DEPTH)
        self.hint(queues)
