"""For development: a worker that starts anew when its code changes."""

import os
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread, main_thread
from typing import Any, Final

from django.utils import autoreload

from pgqueue_django import signals
from pgqueue_django.worker.exits import OK
from pgqueue_django.worker.stop_signals import stop_signals_go_to
from pgqueue_django.worker.worker import Worker

# How the child says that it ended for this reason; no other exit has it.
_CHANGED: Final = 82


def is_child() -> bool:
    """Tell whether this process is the one that is to work."""
    return os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) == "true"


def run_until_changed(worker: Worker) -> int:
    """Run a worker; when code changes, end it as a first signal would.

    Returns:
        The worker's exit code, or one for ``Reloader``.
    """
    changed = Event()
    reloader = autoreload.get_reloader()

    def stop(file_path: Path, **_: Any) -> bool:
        if not changed.is_set():
            signals.code_changed.send_robust(Worker, path=str(file_path))
        changed.set()
        worker.stop()
        # Django would end the process at once.
        return True

    def watch_too(module: str, **_: Any) -> None:
        # What cannot be imported is not among the modules that Django watches.
        if (spec := find_spec(module)) and spec.origin:
            reloader.extra_files.add(Path(spec.origin))

    autoreload.file_changed.connect(stop)
    signals.tasks_module_failed.connect(watch_too, weak=False)
    Thread(
        target=reloader.run,
        args=(main_thread(),),
        name="reloader",
        daemon=True,
    ).start()
    # Without its parent nobody would stop it.
    worker.supervisor_pid = os.getppid()
    code = worker.run()
    return _CHANGED if changed.is_set() else code


class Reloader:
    """Runs this very command in a child, again whenever its code changes."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def run(self) -> int:
        """Go on until a signal, or until the child ends well by itself; blocks.

        A child that fails, as with a syntax error, is tried again at the next change.

        Returns:
            The last child's exit code.
        """
        with stop_signals_go_to(self._on_signal):
            while True:
                code = self._run_child()
                if self._told() or code == OK:
                    return OK if code == _CHANGED else code
                if code != _CHANGED:
                    self._wait_for_change()

    def _run_child(self) -> int:
        if self._told():
            return OK
        environment = {**os.environ, autoreload.DJANGO_AUTORELOAD_ENV: "true"}
        # Out of the terminal's foreground group: of a Ctrl-C only the parent hears.
        self._child = subprocess.Popen(
            autoreload.get_child_arguments(), env=environment, process_group=0
        )
        if self._told():
            self._child.terminate()
        return self._child.wait()

    def _told(self) -> bool:
        """Tell whether there was a signal."""
        return self._stopping

    def _wait_for_change(self) -> None:
        watch = _Watch()
        ticks = watch.tick()
        while not (watch.changed or self._told()):
            next(ticks)

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._stopping = True
        if self._child is not None:
            self._child.send_signal(signal.SIGTERM)


class _Watch(autoreload.StatReloader):
    """Notes that one of this process's own modules has changed."""

    changed = False

    def notify_file_changed(self, path: str | os.PathLike[str]) -> None:
        """Note it."""
        del path
        self.changed = True
