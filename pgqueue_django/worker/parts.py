"""The parts of one worker, and how they are joined."""

import os
import socket
from asyncio import wrap_future
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import router

from pgqueue_django import __version__, signals
from pgqueue_django.attempts import Attempt
from pgqueue_django.conf import get_settings
from pgqueue_django.db import WorkerSession
from pgqueue_django.db.handler_connections import (
    HandlerConnections,
    close_handler_connections,
)
from pgqueue_django.maintenance.merger import Merger
from pgqueue_django.maintenance.promoter import Promoter
from pgqueue_django.maintenance.pruner import Pruner
from pgqueue_django.maintenance.reaper import Reaper
from pgqueue_django.managers.workers import Introduction
from pgqueue_django.models import Job
from pgqueue_django.notifications import HEARING_FACTOR
from pgqueue_django.outcomes import Outcome, Released
from pgqueue_django.pace import Pace
from pgqueue_django.worker.async_pool import AsyncPool
from pgqueue_django.worker.board import Board
from pgqueue_django.worker.claimer import Claimer
from pgqueue_django.worker.completer import Completer
from pgqueue_django.worker.executor import Executor
from pgqueue_django.worker.heartbeat import Heartbeat
from pgqueue_django.worker.held import Notes
from pgqueue_django.worker.lanes import Lanes
from pgqueue_django.worker.leases import Lease, Leases
from pgqueue_django.worker.listener import ECHO, Listener
from pgqueue_django.worker.loop import FORERUNNER, Alone, Loop, Turns
from pgqueue_django.worker.options import WorkerOptions
from pgqueue_django.worker.pools import NO_ROOM, Pools, Room
from pgqueue_django.worker.presence import Presence
from pgqueue_django.worker.sync_calls import Line, SyncCalls
from pgqueue_django.worker.thread_pool import ThreadPool
from pgqueue_django.worker.timeouts import TimeLimits

P = ParamSpec("P")
T = TypeVar("T")

# With a commit for each outcome, so many are under way at the same time at most.
_LANES = 16

# The longest time for one statement (seconds). A lease must outlive one that hangs.
_STATEMENT_LIMIT = 10.0

# How long the parts may take to end: once they are told to, after their connections are
# cut, and for the handlers' threads (seconds each).
_JOIN = 0.2


class Parts:
    """Builds, joins, starts and stops a worker's parts.

    Args:
        options: The worker's.
        identity: The worker's.
        board: What its supervisor looks at, if it has one.
    """

    def __init__(
        self, options: WorkerOptions, identity: str, board: Board | None = None
    ) -> None:
        self._options = options
        self._identity = identity
        self._sessions: list[WorkerSession] = []
        self._claiming = True
        self._waits_for_completer = False
        self._stopped = False
        self.leases = Leases(options.lease)
        self.time_limits = TimeLimits(board)
        self._notes = Notes(self._session("notes"))
        self.executor = Executor(self.time_limits, self._notes)
        self._sync_calls = SyncCalls(options.threads, "pgqueue-async-call")
        # Apart from those: no start or end is to wait for handlers' calls.
        self._announcing = SyncCalls(options.threads, "pgqueue-async-signals")
        self.pools = self._make_pools()
        self.completer = self._make_completers()
        self._listener = self._make_listener() if get_settings().notify else None
        self._claimer = self._make_claimer()
        self._promoter = Promoter(
            maintenance := self._session("maintenance"),
            # Producers announce what is due sooner than the setting says, whatever
            # this worker was told.
            self._pace(
                min(options.poll_interval, get_settings().poll_interval_seconds)
            ),
            self._due,
        )
        reaper = Reaper(
            maintenance,
            min(options.lease, get_settings().reap_interval_seconds),
            self._due,
        )
        pruner = Pruner(maintenance, fellows="pgqueue maintenance ")
        self._turns = Turns(
            "maintenance", [self._promoter, reaper, pruner, Merger(maintenance)]
        )
        self._heartbeat_loop = Loop(self._make_heartbeat(), FORERUNNER, self._back)
        # The promoter asks the database something at each look.
        self._heartbeat_alone = Alone(
            self._heartbeat_loop.recovery,
            self._turns.recoveries[self._promoter.name],
        )
        self._claimer_loop = Loop(self._claimer)
        self._turns_loop = Loop(self._turns)
        self._loops = [
            self._heartbeat_loop,
            *map(Loop, self.completer.completers),
            self._turns_loop,
            self._claimer_loop,
            Loop(self._make_presence()),
        ]
        if self._listener:
            self._loops.append(Loop(self._listener))

    # --- make -------------------------------------------------------------------------

    def _session(self, part: str, limit: float = _STATEMENT_LIMIT) -> WorkerSession:
        session = WorkerSession(
            self._options.database or router.db_for_write(Job),
            name=f"pgqueue {part} {self._identity}",
            prepare=get_settings().prepared_statements,
            limit=min(limit, max(1.0, self._options.lease / 2)),
        )
        self._sessions.append(session)
        return session

    def _make_pools(self) -> Pools:
        threads = ThreadPool(
            self._options.threads, self._run, self._room_made, close_handler_connections
        )
        loop = AsyncPool(
            self._options.async_slots,
            self._run_async,
            self._room_made,
            self._stop_async_threads,
        )
        return Pools(threads, loop)

    def _make_completers(self) -> Lanes:
        configured = get_settings()
        if configured.durability == "per_job":
            lanes, flush_size = min(self._options.threads, _LANES), 1
        else:
            lanes, flush_size = 1, configured.flush_size
        completers = [
            Completer(
                self._session("completer"),
                self.leases,
                identity=self._identity,
                flush_size=flush_size,
                flush_seconds=configured.flush_milliseconds / 1_000,
                on_waiting=self._waiting,
                on_flushed=self._flushed,
            )
            for _ in range(lanes)
        ]
        return Lanes(completers, flush_size)

    def _pace(self, interval: float) -> Pace:
        return Pace(interval, lambda: bool(self._listener and self._listener.hears))

    def _make_claimer(self) -> Claimer:
        return Claimer(
            self._session("claimer"),
            self.leases,
            queues=self._options.queues,
            identity=self._identity,
            lease=self._options.lease,
            pace=self._pace(self._options.poll_interval),
            room=self._room,
            dispatch=self._dispatch,
        )

    def _make_heartbeat(self) -> Heartbeat:
        return Heartbeat(
            self._session("heartbeat"),
            self.leases,
            self._options.lease,
            self._options.heartbeat,
            self.executor.cancel,
        )

    def _make_listener(self) -> Listener:
        return Listener(
            self._session("listener", limit=ECHO),
            self._heard,
            self._soon,
            self._missed,
            self._cancel_heard,
        )

    def _make_presence(self) -> Presence:
        introduction = Introduction(
            name=self._identity,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=str(self._options.queues),
            threads=self._options.threads,
            async_slots=self._options.async_slots,
            version=__version__,
        )
        return Presence(
            self._session("presence"), introduction, lambda: self.pools.running
        )

    # --- join -------------------------------------------------------------------------

    def _room(self) -> Room:
        """Return what may be claimed now."""
        if not self._claiming or self._heartbeat_loop.recovery.failing_since:
            return NO_ROOM
        if self.completer.full:
            self._waits_for_completer = True
            return NO_ROOM
        room = self.pools.room
        if self._options.max_jobs is None:
            return room
        left = self._options.max_jobs - self.pools.taken
        return room._replace(jobs=min(room.jobs, left))

    def _dispatch(self, attempts: list[Attempt], mixed: bool) -> None:  # noqa: FBT001
        if self._claiming:
            self.pools.submit(attempts, mixed=mixed)
        else:
            self.release(attempts)

    def _run(self, attempt: Attempt) -> None:
        if (lease := self._held(attempt)) is None:
            return
        with HandlerConnections() as connections:
            outcome = self.executor.run(attempt, lease)
        self._hand_over(attempt, outcome)
        if connections.left_open:
            self._report(attempt, connections.left_open)

    async def _run_async(self, attempt: Attempt) -> None:
        if (lease := self._held(attempt)) is None:
            return
        line = Line(self._sync_calls)
        line.open()
        try:
            outcome = await self.executor.run_async(attempt, lease, self._aside)
        finally:
            if cleaned := line.close():
                await wrap_future(cleaned)
        self._hand_over(attempt, outcome)
        if line.left_open:
            await self._aside(self._report)(attempt, line.left_open)

    def _aside(self, function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
        executor: Any = self._announcing
        return sync_to_async(function, thread_sensitive=False, executor=executor)

    def _stop_async_threads(self) -> None:
        self._sync_calls.stop()
        self._announcing.stop()

    def _held(self, attempt: Attempt) -> Lease | None:
        """Return the lease of an attempt that is about to run, if it may."""
        lease = self.leases.find(attempt)
        if lease is not None and lease.expires <= monotonic():
            # Stopped or starved since the claim: it is another's by now, or soon.
            self.completer.put(attempt, Released())
            return None
        return lease

    @staticmethod
    def _report(attempt: Attempt, left_open: list[str]) -> None:
        for alias in left_open:
            signals.transaction_left_open.send_robust(
                Parts, attempt=attempt, alias=alias
            )

    def _hand_over(self, attempt: Attempt, outcome: Outcome) -> None:
        if self._stopped:
            # All that still ran was given back, or left to its lease.
            return
        if self.time_limits.gave_up(attempt):
            # Its outcome was handed over then.
            self.pools.came_back(attempt)
        else:
            self.completer.put(attempt, outcome)

    def _room_made(self) -> None:
        if self._claimer.any_open:
            self._claimer_loop.wake()

    def _flushed(self) -> None:
        if self._waits_for_completer and not self.completer.full:
            self._waits_for_completer = False
            self._room_made()

    def _due(self, queue: str) -> None:
        if self._claimer.hint([queue]):
            self._claimer_loop.wake()

    def _heard(self, queue: str) -> None:
        if self._claimer.heard(queue):
            self._claimer_loop.wake()

    def _waiting(self, queue: str, delay: float) -> None:
        if delay <= 0:
            self._due(queue)
        elif delay < self._options.poll_interval * HEARING_FACTOR:
            self._soon()

    def _soon(self) -> None:
        self._turns.hurry(self._promoter.name)
        self._turns_loop.wake()

    def _back(self) -> None:
        """Let all try again now: the heartbeat has found the database to be back."""
        for loop in self._loops:
            loop.wake()

    def _missed(self) -> None:
        self._claimer.hint(self._options.queues.names)
        self._claimer_loop.wake()
        self._soon()

    def _cancel_heard(self, ids: list[int]) -> None:
        if self.leases.suspect(ids):
            self._heartbeat_loop.wake()

    def release(self, attempts: list[Attempt]) -> None:
        """Give attempts back to the queue."""
        for attempt in attempts:
            self.completer.put(attempt, Released())

    # --- start, watch, stop -----------------------------------------------------------

    def start(self) -> None:
        """Start all parts; claiming comes last."""
        self.pools.start()
        for loop in self._loops:
            loop.start()

    def give_up_stuck(self) -> bool:
        """Record as timed out what did not end; return whether there was any."""
        stuck = self.time_limits.give_up()
        for attempt in stuck:
            self.pools.give_up(attempt)
            self.completer.put(attempt, self.executor.give_up(attempt))
            signals.handler_stuck.send_robust(Parts, attempt=attempt)
        return bool(stuck)

    def warn_of_blocked_loop(self) -> None:
        """Signal who keeps the event loop from going on."""
        if blocked := self.pools.loop.look():
            signals.event_loop_blocked.send_robust(Parts, **blocked._asdict())

    def abort_overdue_statements(self) -> None:
        """Cut the connections whose statements have taken too long."""
        for session in self._sessions:
            if session.overdue():
                session.abort()

    def broken(self) -> str | None:
        """Name a part that cannot go on, or that leaves the others half alive."""
        for loop in self._loops:
            if loop.recovery.hopeless or not loop.alive:
                return loop.service.name
        if not self.pools.whole:
            return "pool"
        for name, recovery in self._turns.recoveries.items():
            if recovery.hopeless:
                return name
        if self._heartbeat_alone.seconds() > self._options.lease:
            return self._heartbeat_loop.service.name
        return None

    def finished(self) -> bool:
        """Tell whether all that was asked for is done: drained, or enough jobs run."""
        if not self.pools.idle or self.completer.backlog or len(self.leases):
            return False
        most = self._options.max_jobs
        if most is not None and self.pools.taken >= most:
            return True
        return (
            self._options.drain
            and self._promoter.caught_up
            and self._claimer.all_empty
            # Once more: the claimer may have found some since the first look.
            and self.pools.idle
        )

    def ages(self) -> dict[str, float]:
        """Return the seconds since each part's last success."""
        now = monotonic()
        recoveries = [(loop.service.name, loop.recovery) for loop in self._loops]
        recoveries += self._turns.recoveries.items()
        ages: dict[str, float] = {}
        for name, one in recoveries:
            ages[name] = max(ages.get(name, 0.0), now - one.last_success)
        return ages

    def stop_claiming(self, timeout: float) -> None:
        """Claim nothing more; what a claim under way brings goes back."""
        self._claiming = False
        self._claimer_loop.stop()
        self._claimer_loop.join(timeout)

    @property
    def quiet(self) -> bool:
        """Whether nothing runs or waits, and no claim is under way that brings more."""
        return self.pools.idle and not self._claimer_loop.alive

    def stop(self) -> None:
        """Stop what still runs, and close the connections."""
        self._stopped = True
        self.pools.stop()
        for loop in self._loops:
            loop.stop()
        self.completer.interrupt()
        if self._listener:
            self._listener.interrupt()
        if not self._join_loops():
            for session in self._sessions:
                session.abort()
            self._join_loops()
        self.pools.join(_JOIN)
        self._notes.close(_JOIN)

    def _join_loops(self) -> bool:
        deadline = monotonic() + _JOIN
        ended = [loop.join(max(0.0, deadline - monotonic())) for loop in self._loops]
        return all(ended)
