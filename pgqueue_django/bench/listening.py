"""The floor of latency: a process that LISTENs, and looks at the rows it hears of."""

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from time import monotonic
from typing import Final, LiteralString

from pgqueue_django.bench.connecting import Connection, connect
from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.pacing import paced
from pgqueue_django.bench.plain import INSERT, insert_values
from pgqueue_django.bench.processes import Crew
from pgqueue_django.bench.progress import Step
from pgqueue_django.bench.sites import DEFAULT

_CHANNEL: Final = "pgqueue_bench"
_QUEUE: Final = "listened"
_GATHER: Final = 0.5  # seconds for the last notifications to arrive
_LOOK: Final = 0.1  # seconds between two looks at the pipe

_PICK: Final[LiteralString] = "SELECT task, args, kwargs FROM pgqueue_job WHERE id = %s"


class ListenFloor(Crew):
    """A process that listens."""

    def measure(
        self, connection: Connection, rate: float, jobs: int, shown: Step
    ) -> list[float]:
        """Insert rows at a steady rate, notify of each, and gather the times.

        Returns:
            Milliseconds from just before each INSERT until the listener had its row.

        Raises:
            BenchError: Not all rows were heard of.
        """
        begun: dict[int, float] = {}
        for n in paced(rate, jobs):
            at = monotonic()
            row = connection.execute(INSERT, insert_values(_QUEUE)).fetchone()
            id_ = int(row[0]) if row else 0
            connection.execute("SELECT pg_notify(%s, %s)", [_CHANNEL, str(id_)])
            begun[id_] = at
            shown.reach(n / jobs)
        heard: dict[int, float] = self.ask("collect")[0]
        if heard.keys() != begun.keys():
            raise BenchError(f"LISTEN heard {len(heard)} of {jobs} rows")
        return [1_000 * (heard[id_] - at) for id_, at in begun.items()]


@contextmanager
def listen_floor(lab: Lab) -> Iterator[ListenFloor]:
    """Start a process that listens; it is ready in the block."""
    with ListenFloor(lab.site, f"{__name__}:main", [{}]) as crew:
        crew.hear()
        yield crew


def main(pipe: Pipe) -> None:
    """Be the listener: say ready, then answer each message with {id: monotonic}."""
    with connect(DEFAULT) as connection:
        connection.execute(f"LISTEN {_CHANNEL}")
        pipe.send("ready")
        heard: dict[int, float] = {}
        try:
            while True:
                _listen(connection, heard, _LOOK)
                if pipe.poll():
                    pipe.recv()
                    _listen(connection, heard, _GATHER)
                    pipe.send(heard)
                    heard = {}
        except (EOFError, OSError):
            return


def _listen(connection: Connection, heard: dict[int, float], seconds: float) -> None:
    # Taken off the connection first, which notifies() has locked until its end.
    while notices := list(connection.notifies(timeout=seconds, stop_after=1)):
        for notice in notices:
            connection.execute(_PICK, [int(notice.payload)]).fetchall()
            heard[int(notice.payload)] = monotonic()
