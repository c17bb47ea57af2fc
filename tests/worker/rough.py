"""Tasks that are hard on their process, which gets rid of them or ends with them."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from pgqueue_django import JobContext, task
from tests.worker import handlers
from tests.worker.handlers import at_once, touch
from tests.worker.hogging import match_badly_for

DEATHS: dict[str, Callable[[], object]] = {
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segmentation fault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "exit": lambda: os._exit(7),
}


@task(max_attempts=3, backoff=at_once)
def die(how: str = "SIGKILL") -> None:
    DEATHS[how]()


@task(max_attempts=1)
def hold_and_fail(folder: str) -> None:
    handlers.hold.func(folder)
    raise ValueError("at last")


@task(takes_context=True)
def hog(context: JobContext, folder: str, seconds: float) -> str:
    """Keep Python's lock in one call, at the first attempt, for about so long."""
    touch(Path(folder, f"job.held-by-{os.getpid()}"))
    if context.attempt == 1:
        match_badly_for(seconds)
    return f"done by {os.getpid()}"


@task
def hog_a_process_of_its_own(seconds: float) -> None:
    """Keep Python's lock for so long, where it is nobody else's."""
    code = f"from tests.worker import hogging; hogging.match_badly_for({seconds})"
    subprocess.run([sys.executable, "-c", code], check=True)


kept: list[bytes] = []


@task(max_attempts=3, backoff=at_once)
def take_all_memory() -> None:
    """Keep a gigabyte, in pieces that are written to; nobody should let it have all."""
    kept.extend(b"x" * (8 << 20) for _ in range(128))


@task(takes_context=True)
def count_runs(context: JobContext, megabytes: int = 0) -> int:
    """Add one to what the job's own row says, and keep some memory for ever."""
    context.save_metadata({"runs": context.task_result.metadata.get("runs", 0) + 1})
    kept.append(b"x" * (megabytes << 20))
    return os.getpid()
