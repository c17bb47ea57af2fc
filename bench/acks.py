"""Notes in a file which outcomes the database has acknowledged to a worker.

A module of ``TASK_MODULES``, so that workers import it. The file is past any server: a
server that forgets what it has acknowledged is found out.
"""

import os
from pathlib import Path
from typing import Any, Final

from pgqueue_django import signals
from pgqueue_django.attempts import Attempt
from pgqueue_django.outcomes import Outcome

FILE: Final = "BENCH_ACKS"
"""Environment variable that names the file."""


def _note(*, recorded: list[tuple[Attempt, Outcome]], **_: Any) -> None:
    lines = "".join(f"{attempt.id} {attempt.token}\n" for attempt, _outcome in recorded)
    file = os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, lines.encode())
    finally:
        os.close(file)


if FILE in os.environ:
    signals.attempts_recorded.connect(_note, dispatch_uid="bench.acks")


def acknowledged() -> set[tuple[int, str]]:
    """Return job and token of each attempt whose outcome was acknowledged."""
    path = Path(os.environ[FILE])
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    pairs = [line.split() for line in lines]
    return {(int(job), token) for job, token in pairs}
