"""A progress bar on stderr, where somebody looks at it. The only importer of tqdm."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

try:
    from tqdm import tqdm
except ImportError:  # pragma: no cover - the extra is not installed
    tqdm = None  # type: ignore[assignment, misc] # asked for below


class Step(Protocol):
    """One thing under way."""

    def reach(self, part: float) -> None:
        """Show how much is done, from 0 to 1."""
        ...


class _Silent:
    def reach(self, part: float) -> None:
        del part


class _Shown:
    def __init__(self, label: str) -> None:
        self._bar = tqdm(
            total=1.0,
            desc=label,
            leave=False,
            file=sys.stderr,
            bar_format="{desc:<40} {percentage:3.0f}% |{bar}| {elapsed}",
        )

    def reach(self, part: float) -> None:
        self._bar.update(min(1.0, part) - self._bar.n)

    def close(self) -> None:
        self._bar.close()


@contextmanager
def step(label: str) -> Iterator[Step]:
    """Show a bar while the block runs, if stderr is a terminal and tqdm is there."""
    if tqdm is None or not sys.stderr.isatty():
        yield _Silent()
        return
    shown = _Shown(label)
    try:
        yield shown
    finally:
        shown.close()
