"""What processes use. The only importer of psutil."""

from collections.abc import Iterable, Iterator

from pgqueue_django.bench.errors import BenchError

try:
    import psutil
except ImportError:  # pragma: no cover - the extra is not installed
    psutil = None  # type: ignore[assignment] # asked for below


def require() -> None:
    """Check that the operating system can be asked.

    Raises:
        BenchError: The extra is not installed.
    """
    if psutil is None:
        raise BenchError(
            "needs psutil, which is not installed: pip install 'pgqueue-django[bench]'"
        )


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return what processes and their children have used of the processors so far."""
    times = [each.cpu_times() for each in _with_children(pids)]
    return float(sum(one.user + one.system for one in times))


def resident_mb(pids: Iterable[int]) -> list[float]:
    """Return what each process and child has in memory, in MB (10**6 bytes)."""
    return [each.memory_info().rss / 1e6 for each in _with_children(pids)]


def _with_children(pids: Iterable[int]) -> Iterator["psutil.Process"]:
    for pid in pids:
        process = psutil.Process(pid)
        yield process
        yield from process.children(recursive=True)
