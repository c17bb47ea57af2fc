"""Sees from outside that a handler keeps all of its process from running."""

from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

from pgqueue_django.worker.board import Board, Limit
from pgqueue_django.worker.timeouts import GRACE

# After so many looks at the same beat the process is silent: ten of its own ticks. They
# are counted, not timed, or a machine that was frozen would find all of them so.
_SILENT: Final = 20

# At this look the threads' times are taken, to see which of them goes on.
_SUSPECT: Final = 6

# How long after its limit a handler is ended that was never told of it, as no other
# code of its process has run since (seconds): it cannot be cleaning up.
_UNTOLD: Final = 1.0


class Finding(NamedTuple):
    """Why a process must be killed.

    ``proven`` tells that one of the overdue attempts keeps it from running, so that
    what else runs in it is innocent.
    """

    overdue: list[Limit]
    proven: bool


class Guard:
    """Watches one process by its board; ``look`` is to be called twenty times a second.

    Args:
        pid: The process.
        board: Its board.
    """

    def __init__(self, pid: int, board: Board) -> None:
        self._pid = pid
        self._board = board
        self._beat = 0.0
        self._looks = 0
        self._times: dict[int, int] = {}

    def look(self) -> Finding | None:
        """Return what is to be ended, if the process is silent and cannot do so."""
        beat = self._board.last_beat
        if beat != self._beat:
            self._beat, self._looks = beat, 0
            return None
        self._looks += 1
        if self._looks == _SUSPECT:
            self._times = _thread_times(self._pid)
        if self._looks < _SILENT:
            return None
        now = monotonic()
        overdue = [limit for limit in self._board.limits() if limit.deadline <= now]
        if not any(self._is_over(limit, now) for limit in overdue):
            return None
        return Finding(overdue, self._busiest() in {each.thread for each in overdue})

    def _is_over(self, limit: Limit, now: float) -> bool:
        untold = self._beat < limit.deadline
        return now >= limit.deadline + (_UNTOLD if untold else GRACE)

    def _busiest(self) -> int | None:
        """Return the thread that has worked most since the process was suspected."""
        worked = {
            thread: time - self._times.get(thread, 0)
            for thread, time in _thread_times(self._pid).items()
        }
        busiest = max(worked, key=worked.__getitem__, default=None)
        return busiest if busiest and worked[busiest] else None


def _thread_times(pid: int) -> dict[int, int]:
    """Return each thread's processor time in ticks; empty where nobody tells."""
    times: dict[int, int] = {}
    try:
        for path in Path(f"/proc/{pid}/task").iterdir():
            # After the name, which may have anything in it; user and system time.
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            times[int(path.name)] = int(fields[11]) + int(fields[12])
    except OSError:
        return {}
    return times
