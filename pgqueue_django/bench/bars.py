"""The bars: what each bench must reach, as a ratio within one run."""

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar.

    Args:
        name: What is measured, with its unit.
        bound: What must be reached.
        aim: What should be.
        at_least: Whether more is better.
    """

    name: str
    bound: float
    aim: float | None = None
    at_least: bool = True

    def judge(self, value: float) -> "Judged":
        """Hold a value against the bar."""
        ok = value >= self.bound if self.at_least else value <= self.bound
        sense = "at least" if self.at_least else "at most"
        return Judged(f"{self.name}, {sense}", value, self.bound, ok)


@dataclass(frozen=True, slots=True)
class Judged:
    """A value held against its bar."""

    name: str
    value: float
    bar: float
    ok: bool

    def as_json(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
        return {
            "name": self.name,
            "value": self.value,
            "bar": self.bar,
            "ok": self.ok,
        }


def _at_most(name: str, bound: float, aim: float | None = None) -> Bar:
    return Bar(name, bound, aim, at_least=False)


THROUGHPUT: Final = Bar("throughput with 2 processes, part of the floor", 0.7, 0.9)
PER_JOB: Final = Bar(
    "throughput with one commit per job and 16 threads, part of the floor", 0.7, 0.9
)
LATENCY_P50: Final = _at_most("latency p50, times the LISTEN floor", 2.5, 1.5)
LATENCY_P99: Final = _at_most("latency p99, times the LISTEN floor", 4.0, 2.0)
DELAYED: Final = _at_most("delayed jobs, p99 after their time in ms", 20.0, 5.0)
COMMIT: Final = _at_most("commit to first line, median in ms", 50.0)
ENQUEUE_ONE: Final = Bar("enqueue one by one, part of a bare INSERT", 0.6, 0.8)
ENQUEUE_MANY: Final = Bar("enqueue_many, part of a bare unnest INSERT", 0.5, 0.8)
GROWTH_RATE: Final = Bar("throughput, part of an empty table's", 0.85, 0.95)
GROWTH_CLAIM: Final = _at_most("claim p95, times an empty table's", 1.3, 1.1)
BLOAT_RATE: Final = Bar("throughput in the last quarter, part of the first", 0.8, 0.9)
BLOAT_CLAIM: Final = _at_most(
    "claim p95 in the last quarter, times the first", 1.5, 1.2
)
QUEUES: Final = Bar("throughput with 200 queues, part of one queue's", 0.7, 0.9)
METRICS: Final = _at_most("/metrics with 1,000,000 finished jobs, times none", 1.3, 1.0)
IDLE_QUERIES: Final = _at_most("queries/s of an idle process", 1.0, 0.2)
IDLE_CPU: Final = _at_most("CPU of an idle process, % of a core", 0.5)
IDLE_MEMORY: Final = _at_most("resident memory of an idle process, MB", 80.0)
SOAK_MEMORY: Final = _at_most("memory at the end, times that of the start", 1.05)
SOAK_TABLE: Final = _at_most("table size at the end, times that of the start", 1.05)

# Measured elsewhere: by bench/benchmark.py, and by bench/peers.py.
CLAIM_MODES: Final = Bar("SKIP LOCKED with 16 workers, times FOR UPDATE", 1.0)
PGQUEUER: Final = Bar("throughput with 2 processes, times pgqueuer's", 2.0)
CELERY: Final = _at_most("latency p50, times that of Celery on Redis", 1.0)
