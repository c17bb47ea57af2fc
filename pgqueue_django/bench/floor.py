"""The floor of throughput: bare loops of claim and ack, without a worker around them.

``own`` runs this package's statements through its manager, as the worker does.
``minimal`` runs the shortest statements that keep the table's constraints, by psycopg
alone: what any queue on this table could reach in Python.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from threading import Barrier, Thread
from typing import Final, LiteralString, Protocol
from uuid import UUID, uuid4

from pgqueue_django.attempts import Attempt, Write
from pgqueue_django.bench.connecting import connect
from pgqueue_django.bench.handlers import Handler
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.processes import Crew
from pgqueue_django.bench.seeding import clear, seed
from pgqueue_django.bench.sites import DEFAULT
from pgqueue_django.db import WorkerSession
from pgqueue_django.models import Job

FLOOR_QUEUE: Final = "floor"
"""Served by no worker of a bench."""

_LEASE: Final = 30.0  # seconds
_WARM_UP_TURNS: Final = 5  # for each loop, so that statements are prepared


class _Loop(Protocol):
    def turn(self) -> bool:
        """Claim and ack a batch; return whether there was one."""
        ...


class _Own:
    def __init__(self, queue: str, batch: int, *, per_job: bool, waiting: bool) -> None:
        self._jobs = Job.objects.on(WorkerSession(DEFAULT, name="pgqueue floor"))
        self._claim = {"limit": batch, "for_update_wait": waiting, "queue": queue}
        self._per_job = per_job

    def turn(self) -> bool:
        attempts: list[Attempt] = self._jobs.claim(
            worker="floor",
            lease=_LEASE,
            **self._claim,  # type: ignore[arg-type] # of three types
        )
        writes = [Write(attempt, detail="null") for attempt in attempts]
        batches = [[write] for write in writes] if self._per_job else [writes]
        for some in batches:
            self._jobs.ack_many(some)
        return bool(attempts)


_MINIMAL_CLAIM: Final[LiteralString] = """
WITH candidate AS MATERIALIZED (
    SELECT id FROM pgqueue_job
    WHERE queue = %s AND state = 'queued'
    ORDER BY priority DESC, run_at, id
    LIMIT %s
    FOR UPDATE SKIP LOCKED
)
UPDATE pgqueue_job
SET state = 'running', attempts = attempts + 1, lease_token = %s,
    lease_expires_at = now() + interval '30 s', first_claimed_at = now()
WHERE id = ANY(ARRAY(SELECT id FROM candidate))
RETURNING id, task, args, kwargs
"""

_MINIMAL_ACK: Final[LiteralString] = """
UPDATE pgqueue_job
SET state = 'succeeded', lease_token = NULL, lease_expires_at = NULL,
    finished_at = now()
WHERE id = ANY(%s::bigint[]) AND lease_token = %s
"""


class _Minimal:
    def __init__(self, queue: str, batch: int, *, per_job: bool) -> None:
        self._connection = connect(DEFAULT)
        self._queue, self._batch, self._per_job = queue, batch, per_job

    def turn(self) -> bool:
        token = uuid4()
        claim = (self._queue, self._batch, token)
        ids = [row[0] for row in self._connection.execute(_MINIMAL_CLAIM, claim)]
        for some in [[id_] for id_ in ids] if self._per_job else [ids]:
            self._ack(some, token)
        return bool(ids)

    def _ack(self, ids: list[int], token: UUID) -> None:
        self._connection.execute(_MINIMAL_ACK, (ids, token))


class Floor(Crew):
    """Processes with bare loops."""

    def drain(self) -> None:
        """Let all of them claim and ack until the queue is empty."""
        self.ask("go")


@contextmanager
def floor(
    lab: Lab,
    kind: str,
    *,
    processes: int,
    batch: int,
    threads: int = 1,
    per_job: bool = False,
    waiting: bool = False,
    queue: str = FLOOR_QUEUE,
    alias: str = DEFAULT,
) -> Iterator[Floor]:
    """Start bare loops that wait to be told.

    Empties the table.

    Args:
        lab: Where.
        kind: ``own`` or ``minimal``.
        processes: How many.
        batch: Jobs in a claim.
        threads: Loops in each process, each with its own connection.
        per_job: Whether each job's outcome has a commit of its own.
        waiting: Whether claims wait for locked rows. Of ``own`` only.
        queue: Where the jobs are.
        alias: Of the database.
    """
    given = {
        "kind": kind,
        "queue": queue,
        "batch": batch,
        "threads": threads,
        "per_job": per_job,
        "waiting": waiting,
    }
    with Floor(lab.site.only(alias), f"{__name__}:main", [given] * processes) as crew:
        crew.hear()
        _warm_up(lab, crew, queue, alias, batch * threads * processes)
        yield crew


def _warm_up(lab: Lab, crew: Floor, queue: str, alias: str, at_once: int) -> None:
    with lab.connection(alias) as connection:
        jobs = _WARM_UP_TURNS * at_once
        seed(connection, [queue], Handler.parse("noop"), jobs)
        crew.drain()
        clear(connection)


def main(pipe: Pipe, threads: int, **given: object) -> None:
    """Be a process with loops: say ready, then answer each message once drained."""
    loops = [_loop(**given) for _ in range(threads)]  # type: ignore[arg-type]
    for loop in loops:
        loop.turn()  # Which connects.
    pipe.send("ready")
    try:
        while pipe.recv():
            _drain(loops)
            pipe.send("drained")
    except (EOFError, OSError):
        return


def _loop(kind: str, queue: str, batch: int, per_job: bool, waiting: bool) -> _Loop:  # noqa: FBT001
    if kind == "minimal":
        return _Minimal(queue, batch, per_job=per_job)
    return _Own(queue, batch, per_job=per_job, waiting=waiting)


def _drain(loops: list[_Loop]) -> None:
    if len(loops) == 1:
        _work(loops[0], Barrier(1))
        return
    together = Barrier(len(loops))
    running = [Thread(target=_work, args=(loop, together)) for loop in loops]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def _work(loop: _Loop, together: Barrier) -> None:
    together.wait()
    while loop.turn():
        pass
