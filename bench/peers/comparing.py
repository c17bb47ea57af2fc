"""Figures of all queues, beside this package's. Pure functions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from bench.peers.known import CELERY, OURS, PEERS, PGQUEUER
from bench.peers.measuring import Measured
from pgqueue_django.bench import bars
from pgqueue_django.bench.bars import Judged
from pgqueue_django.bench.figures import Figure, percentile
from pgqueue_django.bench.reports import Report

RATE: Final = "throughput"
PERCENTS: Final = (50, 99)

Repeats = Mapping[str, Sequence[Measured]]
"""What each queue reached, by its name; each as often as the others."""


def name(what: str, peer: str) -> str:
    """Return a figure's name in the report."""
    return f"{what}: {peer}"


def report(repeats: Repeats, options: Mapping[str, Any]) -> Report:
    """Make a report of what was measured."""
    figures = dict(_figures(repeats))
    return Report(
        bench="peers",
        measured=figures,
        bars=tuple(_bars(figures)),
        options=options,
    )


def _figures(repeats: Repeats) -> Iterator[tuple[str, Figure]]:
    for peer, measured in repeats.items():
        rates = Figure.of("jobs/s", (each.throughput for each in measured))
        yield name(RATE, peer), rates
        for percent in PERCENTS:
            pickups = (percentile(each.pickups, percent) for each in measured)
            yield name(f"pickup p{percent}", peer), Figure.of("ms", pickups)
            whole = (percentile(each.whole, percent) for each in measured)
            yield name(f"call to handler p{percent}", peer), Figure.of("ms", whole)


def _bars(figures: Mapping[str, Figure]) -> Iterator[Judged]:
    for bar, what, peer in (
        (bars.PGQUEUER, RATE, PGQUEUER),
        (bars.CELERY, "pickup p50", CELERY),
    ):
        own, other = figures.get(name(what, OURS)), figures.get(name(what, peer))
        if own and other:
            yield bar.judge(own.over(other).median)


def described(
    versions: Mapping[str, str], reasons: Mapping[str, str]
) -> dict[str, Any]:
    """Return what the report tells of each queue, left out or not.

    Args:
        versions: By name, of those that were installed.
        reasons: By name, why one is left out.
    """
    return {
        each.name: {
            "version": versions.get(each.name, ""),
            "configured": each.configured,
            "left_out": reasons.get(each.name, ""),
        }
        for each in PEERS
        if each.name in versions or each.name in reasons
    }
