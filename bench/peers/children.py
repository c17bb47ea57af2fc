"""Programs of other venvs: started, frozen, and gone at the end with all their own."""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from bench.peers.errors import PeerError

_PATIENCE: Final = 5.0  # seconds to end by itself


class Children:
    """Copies of a program that run beside each other.

    Args:
        command: The program and its arguments.
        copies: How many.
        environment: All of their variables.
        log: Where they print to.
    """

    def __init__(
        self,
        command: Sequence[str],
        copies: int,
        environment: Mapping[str, str],
        log: Path,
    ) -> None:
        self._command = command
        self._copies = copies
        self._environment = environment
        self._log = log
        self._started: list[psutil.Popen] = []

    def __enter__(self) -> Self:
        try:
            with self._log.open("ab") as log:
                for _ in range(self._copies):
                    self._started.append(self._start(log.fileno()))
        except OSError as error:
            self._end()
            raise PeerError(f"does not start: {error}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def _start(self, log: int) -> psutil.Popen:
        return psutil.Popen(
            self._command,
            env=dict(self._environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for the bench, which ends them.
            start_new_session=True,
        )

    def check(self) -> None:
        """Look whether all are there.

        Raises:
            PeerError: One has ended.
        """
        for each in self._started:
            if (code := each.poll()) is not None:
                raise PeerError(f"a worker ended with {code}: {last_line(self._log)}")

    def freeze(self) -> None:
        """Stop them where they are, and whatever they have started."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for each in self._everyone():
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)

    def _everyone(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for each in self._started:
            # A process object knows its process from another of the same number.
            with suppress(psutil.NoSuchProcess):
                found += [each, *each.children(recursive=True)]
        return found

    def _end(self) -> None:
        everyone = self._everyone()
        self.thaw()
        for one in self._started:
            with suppress(psutil.NoSuchProcess):
                one.terminate()
        _, left = psutil.wait_procs(everyone, timeout=_PATIENCE)
        for each in left:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(left, timeout=_PATIENCE)
        self._started.clear()


def last_line(log: Path) -> str:
    """Return the last line that a log says something in."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing said"
