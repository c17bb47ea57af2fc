"""Child processes with one output, which end when their parent does."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Thread
from time import monotonic, sleep

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1

# Two signals closer than this (seconds) are one: `timeout` sends each of them twice.
_ONE_SIGNAL = 0.5


class StopRequest:
    """Set by SIGINT, SIGTERM and SIGHUP, or by hand."""

    def __init__(self) -> None:
        self._times: list[float] = []
        signal.signal(signal.SIGINT, self.make)
        signal.signal(signal.SIGTERM, self.make)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
            signal.signal(signal.SIGHUP, self.make)

    def make(self, *_: object) -> None:
        self._times.append(monotonic())

    def __bool__(self) -> bool:
        return bool(self._times)

    @property
    def urgent(self) -> bool:
        """Whether it was made again."""
        return bool(self) and self._times[-1] - self._times[0] > _ONE_SIGNAL


def _end_with(parent: int) -> None:
    """Have Linux send SIGTERM when the parent is gone, however it ended."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            # It was gone before that.
            os._exit(0)


class Processes:
    """Runs Python modules as children.

    Each is a session of its own: what the terminal sends, Ctrl-C above all, reaches the
    parent only, which then ends its children in order.

    Args:
        say: Is given every line that a child prints, from several threads.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._children: dict[str, subprocess.Popen[str]] = {}
        self._relays: list[Thread] = []

    def start(self, commands: Mapping[str, Sequence[str]]) -> None:
        """Start modules with their arguments, by name; from the main thread, once."""
        for name, command in commands.items():
            self._children[name] = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
                preexec_fn=partial(_end_with, os.getpid()),  # noqa: PLW1509 - no thread runs yet
            )
        for name in commands:
            self._relays.append(Thread(target=self._relay, args=[name], daemon=True))
            self._relays[-1].start()

    def _relay(self, name: str) -> None:
        for line in self._children[name].stdout or ():
            self._say(f"{name:<8} | {line.rstrip()}")

    def ended(self) -> str | None:
        """Tell of a child that has ended, if there is one."""
        for name, child in self._children.items():
            if child.poll() is not None:
                return f"{name} ended by itself, with status {child.returncode}"
        return None

    def stop(self, *names: str, seconds: float, request: StopRequest) -> None:
        """End children; kill those that live on when time is up or it gets urgent."""
        children = [self._children[name] for name in names if name in self._children]
        for child in children:
            child.terminate()
        deadline = monotonic() + seconds
        while any(child.poll() is None for child in children):
            if monotonic() > deadline or request.urgent:
                break
            sleep(0.05)
        for child in children:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def finish_output(self) -> None:
        """Wait until the children's last lines are said."""
        for relay in self._relays:
            relay.join(timeout=1)
