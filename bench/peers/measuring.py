"""One queue, measured once: how fast it picks jobs up, then how many it does."""

import json
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Final

import psycopg

from bench.peers.children import Children, last_line
from bench.peers.errors import PeerError
from bench.peers.handlers import first_noop, seen
from bench.peers.known import Peer
from bench.peers.places import Place

_WARM_UP_JOBS: Final = 100
_SETTLE: Final = 1.5  # seconds in which the last worker gets ready

# Between two looks whether all is done (seconds): this, or so many times what a look
# takes, so that looking is no load.
_LOOK: Final = 0.05
_LOOKS: Final = 20

_PATIENCE: Final = 60.0  # seconds, beside those that the jobs themselves want


@dataclass(frozen=True, slots=True)
class Load:
    """What each queue is given.

    Args:
        rate: Stamped jobs in a second.
        stamps: How many of them.
        seconds: How long no-op jobs shall last.
    """

    rate: float
    stamps: int
    seconds: float

    def jobs(self, peer: Peer) -> int:
        """Return how many no-op jobs a queue gets."""
        return max(_WARM_UP_JOBS, round(peer.rate * self.seconds))


@dataclass(frozen=True, slots=True)
class Measured:
    """What one repeat gave.

    Args:
        throughput: Jobs in a second.
        pickups: Milliseconds from the end of enqueue, its commit, to the handler.
        whole: Milliseconds from the call of enqueue to the handler.
    """

    throughput: float
    pickups: list[float]
    whole: list[float]


def measure(peer: Peer, programs: Path, place: Place, load: Load) -> Measured:
    """Set a queue up, start its workers, and measure.

    Args:
        peer: The queue.
        programs: Of its venv.
        place: Where.
        load: How much.

    Raises:
        PeerError: It does not work, or not in time.
    """
    produce = _producer(peer, programs, place)
    produce("set_up")
    program, *arguments = peer.worker
    command = [str(programs / program), *arguments]
    log = place.folder / "workers.log"
    with Children(command, peer.copies, place.environment, log) as workers:
        produce("fill", "warm", _WARM_UP_JOBS)
        _wait_until(lambda: not place.any_left(), workers, _PATIENCE)
        Event().wait(_SETTLE)
        sent = json.loads(produce("pace", load.rate, load.stamps))
        _wait_until(lambda: len(stamped(place.folder)) >= len(sent), workers, _PATIENCE)
        pickups, whole = latencies(sent, stamped(place.folder))
        throughput = _throughput(produce, workers, place, load, peer)
    return Measured(throughput, pickups, whole)


def _throughput(
    produce: Callable[..., str],
    workers: Children,
    place: Place,
    load: Load,
    peer: Peer,
) -> float:
    """Enqueue while workers are frozen, so that all jobs are there at one time."""
    jobs = load.jobs(peer)
    workers.freeze()
    produce("fill", "noop", jobs)
    with suppress(psycopg.errors.InsufficientPrivilege):
        place.server.execute("CHECKPOINT")
    workers.thaw()
    end = _wait_until(
        lambda: not place.any_left(), workers, _PATIENCE + 10 * load.seconds
    )
    begin = first_noop(place.folder)
    if begin is None:
        raise PeerError(f"ran no job: {last_line(place.folder / 'workers.log')}")
    return jobs / (end - begin)


def _producer(peer: Peer, programs: Path, place: Place) -> Callable[..., str]:
    """Return a function that runs a command of the queue's producer."""
    python = str(programs / "python")

    def produce(*command: object) -> str:
        given = [python, "-m", "bench.peers.produce", peer.side, *map(str, command)]
        log = place.folder / "producer.log"
        with log.open("ab") as errors:
            done = subprocess.run(
                given,
                check=False,
                env=place.environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                timeout=10 * _PATIENCE,
            )
        if done.returncode:
            raise PeerError(f"its {command[0]} failed: {last_line(log)}")
        return done.stdout

    return produce


def _wait_until(done: Callable[[], bool], workers: Children, patience: float) -> float:
    """Wait, and return when it was so, by the monotonic clock."""
    deadline = monotonic() + patience
    while True:
        asked = monotonic()
        if done():
            return asked
        workers.check()
        if asked > deadline:
            raise PeerError(f"not done after {patience:.0f} s")
        Event().wait(max(_LOOK, _LOOKS * (monotonic() - asked)))


def stamped(folder: Path) -> dict[int, float]:
    """Return when jobs ran, without those before the first that counts."""
    return {number: at for number, at in seen(folder).items() if number >= 0}


def latencies(
    sent: Iterable[tuple[float, float]], ran: Mapping[int, float]
) -> tuple[list[float], list[float]]:
    """Return milliseconds since the end, and since the begin, of each enqueue.

    Args:
        sent: Begin and end of each call, in the order of the jobs' numbers.
        ran: When each job's first line ran, by its number; all of one clock (seconds).

    Returns:
        Since the end, 0 for a job that was faster than the call's return; since the
        begin.
    """
    calls = list(enumerate(sent))
    since_end = [max(0.0, ran[n] - end) * 1_000 for n, (_, end) in calls]
    return since_end, [(ran[n] - begin) * 1_000 for n, (begin, _) in calls]
