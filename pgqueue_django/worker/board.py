"""What a worker process shows its supervisor in shared memory: a beat, and limits."""

from mmap import mmap
from struct import Struct
from time import monotonic
from typing import Final, NamedTuple

from pgqueue_django.attempts import Attempt

# More handlers with a timeout at a time than these are not seen from outside.
_SLOTS: Final = 1_024

_BEAT: Final = Struct("=d")
_SLOT: Final = Struct("=dq36sq")


class Limit(NamedTuple):
    """Until when an attempt may run (monotonic), and in which thread it does.

    ``thread`` is the system's number of it; 0 where others run in that thread too.
    """

    deadline: float
    id: int
    token: str
    thread: int


class Board:
    """To be made before the fork: the child writes, its parent reads.

    The clock is ``monotonic``, which is the same for all processes of a machine.

    Concurrency:
        One writer at a time. A reader sees each entry as it was before or after a
        write, if the writer does not run meanwhile.
    """

    def __init__(self) -> None:
        # Pages that nobody has written to take no memory.
        self._memory = mmap(-1, _BEAT.size + _SLOTS * _SLOT.size)
        self._free = [_BEAT.size + n * _SLOT.size for n in reversed(range(_SLOTS))]
        self.beat()

    def beat(self) -> None:
        """Show that Python code runs."""
        _BEAT.pack_into(self._memory, 0, monotonic())

    @property
    def last_beat(self) -> float:
        """When ``beat`` was called last."""
        when: float = _BEAT.unpack_from(self._memory, 0)[0]
        return when

    def put_up(self, attempt: Attempt, deadline: float, thread: int) -> int | None:
        """Show a limit; return its place, or None where there is none left."""
        if not self._free:
            return None
        place = self._free.pop()
        token = attempt.token.encode()
        _SLOT.pack_into(self._memory, place, deadline, attempt.id, token, thread)
        return place

    def take_down(self, place: int) -> None:
        """Show a limit no more; the second time does nothing."""
        if any(self._memory[place : place + _BEAT.size]):
            _SLOT.pack_into(self._memory, place, 0.0, 0, b"", 0)
            self._free.append(place)

    def limits(self) -> list[Limit]:
        """Return what is shown."""
        slots = _SLOT.iter_unpack(self._memory[_BEAT.size :])
        return [
            Limit(deadline, id_, token.decode(), thread)
            for deadline, id_, token, thread in slots
            if deadline
        ]
