"""All queues, by turns."""

from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import TimeoutExpired

import psycopg

import pgqueue_django
from bench.peers.errors import PeerError
from bench.peers.known import Peer
from bench.peers.measuring import Load, Measured, measure
from bench.peers.places import place
from bench.peers.venvs import made, version


class Run:
    """What is compared, and what came of it.

    Args:
        alias: The project's, of a database on the server.
        load: What each queue is given.
        say: Told what goes on.
    """

    def __init__(self, alias: str, load: Load, say: Callable[[str], None]) -> None:
        self._alias = alias
        self._load = load
        self._say = say
        self._peers: list[tuple[Peer, Path]] = []
        self.measured: dict[str, list[Measured]] = {}
        self.versions: dict[str, str] = {}
        self.reasons: dict[str, str] = {}

    def prepare(self, peers: Sequence[Peer], venvs: Path, python: str) -> None:
        """Make the venvs; those that cannot be made are left out."""
        for peer in peers:
            try:
                programs = made(peer, venvs, python)
                self.versions[peer.name] = (
                    version(peer, programs)
                    if peer.package
                    else pgqueue_django.__version__
                )
            except PeerError as error:
                self._leave_out(peer, error)
            else:
                self._peers.append((peer, programs))

    def repeat(self, number: int) -> None:
        """Measure each queue once; who begins changes from repeat to repeat."""
        peers = self._peers
        turned = number % max(1, len(peers))
        for peer, programs in [*peers[turned:], *peers[:turned]]:
            try:
                with place(peer, self._alias) as where:
                    measured = measure(peer, programs, where, self._load)
            except (PeerError, psycopg.Error, TimeoutExpired) as error:
                self._leave_out(peer, error)
            else:
                self.measured.setdefault(peer.name, []).append(measured)
                self._say(
                    f"{number + 1}: {peer.name}, {measured.throughput:,.0f} jobs/s"
                )

    def _leave_out(self, peer: Peer, error: Exception) -> None:
        """Forget what one has reached; repeats of all must be the same."""
        self._say(f"{peer.name} is left out: {error}")
        self.reasons[peer.name] = str(error).partition("\n")[0]
        self.measured.pop(peer.name, None)
        self._peers = [each for each in self._peers if each[0] is not peer]
