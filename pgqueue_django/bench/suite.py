"""All benches: their names, options and sizes. Knows them by path, imports none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_SIZES: Final = frozenset({"jobs", "many", "rows", "seconds"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One bench.

    Args:
        help: What it measures.
        target: ``"module:function"``, called with a Lab.
        options: Its options, with their defaults.
        small: Other defaults when all benches run.
        databases: How many it wants.
    """

    help: str
    target: str
    options: Mapping[str, Any]
    small: Mapping[str, Any] = field(default_factory=dict)
    databases: int = 1

    def small_options(self, scale: float) -> dict[str, Any]:
        """Return the options for a run of all benches.

        Args:
            scale: What to multiply numbers of jobs, rows and seconds by.
        """
        chosen = {**self.options, **self.small}
        return {k: _scaled(k, value, scale) for k, value in chosen.items()}


def _scaled(name: str, value: Any, scale: float) -> Any:
    if name not in _SIZES:
        return value
    return (
        max(1.0, value * scale) if name == "seconds" else max(4, round(value * scale))
    )


def _target(module: str) -> str:
    return f"pgqueue_django.bench.{module}:run"


_WORKERS: Final = {"processes": 2, "threads": 4}
_REPEATS: Final = {"repeats": 5}

BENCHES: Final[Mapping[str, Bench]] = {
    "throughput": Bench(
        help="Jobs/s of workers, and of a bare loop of claim and ack.",
        target=_target("throughput"),
        options={
            "jobs": 50_000,
            **_WORKERS,
            "batch": 200,
            "claim": "skip-locked",
            "handler": "noop",
            "durability": "batched",
            **_REPEATS,
        },
        small={"jobs": 10_000},
    ),
    "latency": Bench(
        help="Milliseconds from enqueue to the handler's first line.",
        target=_target("latency"),
        options={"jobs": 500, "rate": 100.0, **_WORKERS, "processes": 1, **_REPEATS},
        small={"jobs": 200},
    ),
    "enqueue": Bench(
        help="Jobs/s of one producer, and of bare INSERTs.",
        target=_target("enqueueing"),
        options={"jobs": 2_000, "many": 10_000, **_REPEATS},
        small={"jobs": 500},
    ),
    "growth": Bench(
        help="Throughput and claim time beside millions of rows.",
        target=_target("growth"),
        options={"jobs": 20_000, "rows": 1_000_000, **_WORKERS, **_REPEATS},
        small={"jobs": 5_000, "rows": 50_000},
        databases=2,
    ),
    "bloat": Bench(
        help="Throughput and claim time while a snapshot holds vacuum back.",
        target=_target("bloat"),
        options={"jobs": 500_000, **_WORKERS, **_REPEATS},
        small={"jobs": 20_000},
    ),
    "queues": Bench(
        help="Throughput with 1, 20 and 200 queues.",
        target=_target("queues"),
        options={"jobs": 20_000, **_WORKERS, **_REPEATS},
        small={"jobs": 5_000},
    ),
    "metrics": Bench(
        help="Milliseconds of a scrape beside a million finished jobs.",
        target=_target("metrics"),
        options={"rows": 1_000_000, **_REPEATS},
        small={"rows": 50_000},
        databases=2,
    ),
    "idle": Bench(
        help="Queries/s, CPU and memory of workers with nothing to do.",
        target=_target("idle"),
        options={"seconds": 30.0, **_WORKERS, **_REPEATS},
        small={"seconds": 5.0},
    ),
    "soak": Bench(
        help="Memory, dead rows and table size under a steady load.",
        target=_target("soak"),
        options={"seconds": 600.0, **_WORKERS},
        small={"seconds": 20.0},
    ),
}
