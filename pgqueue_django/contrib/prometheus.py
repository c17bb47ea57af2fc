"""The queue's figures for Prometheus: from the database, so the same in each process.

``GET /metrics`` serves them. Where ``django_prometheus`` is an installed app its own
endpoint has them, too; unless it runs in multiprocess mode, which leaves out all that
is not counted in processes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, NamedTuple

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from pgqueue_django.events import Event
from pgqueue_django.histograms import BOUNDS
from pgqueue_django.managers.counters import Total
from pgqueue_django.managers.live import Live
from pgqueue_django.states import LIVE, State
from pgqueue_django.stats.figures import Figures, latest_figures

_BOUNDS: Final = (*BOUNDS, float("inf"))

# What ends an attempt, with the time since its claim. Not the loss of a lease: its time
# is that of the lease.
_RUNS: Final = (
    Event.SUCCEEDED,
    Event.RETRIED,
    Event.FAILED,
    Event.CANCELLED_BY_HANDLER,
)


class _Counted(NamedTuple):
    name: str
    help: str
    events: tuple[Event, ...]


_COUNTERS: Final = (
    _Counted(
        "pgqueue_jobs_started",
        "Jobs that were claimed for the first time.",
        (Event.STARTED,),
    ),
    _Counted("pgqueue_jobs_completed", "Jobs that succeeded.", (Event.SUCCEEDED,)),
    _Counted(
        "pgqueue_job_failures",
        "Attempts that failed, a dead job's last one included; without lost leases.",
        (Event.RETRIED, Event.FAILED),
    ),
    _Counted(
        "pgqueue_jobs_dead",
        "Jobs whose attempts were used up, by failures or by lost leases.",
        (Event.FAILED, Event.LEASE_EXPIRED_DEAD),
    ),
    _Counted(
        "pgqueue_jobs_cancelled",
        "Jobs that were cancelled, by their handlers or by others.",
        (Event.CANCELLED_BY_HANDLER, Event.CANCELLED, Event.CANCELLED_UNSTARTED),
    ),
    _Counted(
        "pgqueue_jobs_requeued",
        "Dead jobs that somebody let run again.",
        (Event.REQUEUED,),
    ),
    _Counted(
        "pgqueue_leases_expired",
        "Attempts whose workers died, stalled or were cut off.",
        (Event.LEASE_EXPIRED, Event.LEASE_EXPIRED_DEAD),
    ),
)

_ByTask = Mapping[tuple[str, str], list[Total]]


class QueueCollector(Collector):
    """Makes metrics of the figures.

    Args:
        read: Returns the figures, or None when they cannot be had.
    """

    def __init__(self, read: Callable[[], Figures | None] = latest_figures) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; only ``pgqueue_up 0`` when the database has none."""
        figures = self._read()
        yield GaugeMetricFamily(
            "pgqueue_up",
            "Whether the figures could be read from the database.",
            value=float(figures is not None),
        )
        if figures is not None:
            yield from _gauges(figures)
            yield from _totals(_by_task(figures.totals))

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that to register this reads nothing."""
        return ()


def _gauges(figures: Figures) -> Iterator[Metric]:
    found = {(row.queue, row.state): row for row in figures.live}
    # Queues that are empty now are shown as such, where anything ever happened there.
    queues = {row.queue for row in figures.live} | {t.queue for t in figures.totals}
    jobs = GaugeMetricFamily(
        "pgqueue_jobs", "Jobs that have not finished.", labels=["queue", "state"]
    )
    running = GaugeMetricFamily(
        "pgqueue_running_jobs",
        "Running jobs, by whether their leases stand. Where some stay under an expired "
        "one, no worker is alive to reap them.",
        labels=["queue", "lease"],
    )
    oldest = GaugeMetricFamily(
        "pgqueue_oldest_due_job_age_seconds",
        "For how long the oldest job could have run that has not been claimed.",
        labels=["queue"],
    )
    for queue in sorted(queues):
        rows = {state: found.get((queue, state)) for state in sorted(LIVE)}
        for state, row in rows.items():
            jobs.add_metric([queue, state], row.jobs if row else 0)
        held = rows[State.RUNNING] or Live(queue, State.RUNNING, 0, 0, None)
        running.add_metric([queue, "valid"], held.jobs - held.expired)
        running.add_metric([queue, "expired"], held.expired)
        ages = [row.oldest_due for row in rows.values() if row and row.oldest_due]
        oldest.add_metric([queue], max(0.0, *ages, 0.0))
    yield from (jobs, running, oldest)


def _by_task(totals: Iterable[Total]) -> _ByTask:
    found: dict[tuple[str, str], list[Total]] = defaultdict(list)
    for total in totals:
        found[total.queue, total.task].append(total)
    return found


def _totals(by_task: _ByTask) -> Iterator[Metric]:
    for counted in _COUNTERS:
        family = CounterMetricFamily(
            counted.name, counted.help, labels=["queue", "task"]
        )
        for labels, totals in sorted(by_task.items()):
            times = sum(t.times for t in totals if t.event in counted.events)
            family.add_metric(labels, times)
        yield family
    yield _histogram(
        "pgqueue_enqueue_to_start_seconds",
        "From when a job could run, the later of its enqueuing and its run_at, to its "
        "first claim.",
        (Event.STARTED,),
        by_task,
    )
    yield _histogram(
        "pgqueue_run_seconds",
        "From the claim of an attempt to its recorded end; without lost leases.",
        _RUNS,
        by_task,
    )


def _histogram(
    name: str, text: str, events: tuple[Event, ...], by_task: _ByTask
) -> Metric:
    family = HistogramMetricFamily(name, text, labels=["queue", "task"])
    for labels, totals in sorted(by_task.items()):
        chosen = [total for total in totals if total.event in events]
        counts = [
            sum(total.times for total in chosen if low < total.le <= high)
            for low, high in zip((0.0, *_BOUNDS), _BOUNDS, strict=False)
        ]
        names = map(floatToGoString, _BOUNDS)
        buckets = list(zip(names, map(float, accumulate(counts)), strict=True))
        microseconds = sum(total.microseconds for total in chosen)
        family.add_metric(labels, buckets, microseconds / 1_000_000)
    return family


_own_registry: Final = CollectorRegistry()
_collector: Final = QueueCollector()
_own_registry.register(_collector)


def exposition(accept: str) -> tuple[bytes, str]:
    """Return the text for a scraper, and its content type.

    Args:
        accept: The request's Accept header: OpenMetrics is given to who asks for it.
    """
    encode, content_type = choose_encoder(accept)
    return encode(_own_registry), content_type


def register(registry: CollectorRegistry = REGISTRY) -> None:
    """Let another registry have the queue's metrics, too; once is enough."""
    if _collector not in _registered:
        registry.register(_collector)
        _registered.append(_collector)


_registered: list[QueueCollector] = []
