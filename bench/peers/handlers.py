"""What the jobs of all queues do. Runs in every queue's venv: standard library only."""

import os
from pathlib import Path
from time import monotonic

# A folder of the repeat, where handlers say when they ran.
STAMPS = "PEER_STAMPS"

_FIRST, _SEEN = "first", "seen"


class _Marks:
    """What a process remembers, so that a no-op job costs one comparison."""

    begun = False
    file: int | None = None


def warm() -> None:
    """Do nothing, before anything is measured."""


def noop() -> None:
    """Do nothing; the first in a process says when."""
    if not _Marks.begun:
        _Marks.begun = True
        _append(_FIRST, f"{monotonic()!r}\n")


def stamp(number: int) -> None:
    """Say when the first line ran, by the clock that all processes share."""
    now = monotonic()
    if _Marks.file is None:
        _Marks.file = _opened(_SEEN)
    os.write(_Marks.file, f"{number} {now!r}\n".encode())


def _append(name: str, line: str) -> None:
    file = _opened(name)
    os.write(file, line.encode())
    os.close(file)


def _opened(name: str) -> int:
    # One short write at the end of a file is whole, whoever else writes.
    path = Path(os.environ[STAMPS], name)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def first_noop(folder: Path) -> float | None:
    """Return when the first no-op job ran; None if none has."""
    return min(map(float, _lines(folder / _FIRST)), default=None)


def seen(folder: Path) -> dict[int, float]:
    """Return when each stamped job ran, by its number; the first time counts."""
    times: dict[int, float] = {}
    for line in _lines(folder / _SEEN):
        number, _, time = line.partition(" ")
        times.setdefault(int(number), float(time))
    return times


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").splitlines() if path.exists() else []
