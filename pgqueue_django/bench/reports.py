"""What a bench returns, and how it is printed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pgqueue_django.bench.bars import Judged
from pgqueue_django.bench.figures import Figure

Figures = Mapping[str, Figure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The figures of one bench.

    Args:
        bench: Its name.
        measured: What this package reached, by what was measured.
        floor: What bare loops reached, by the loop.
        bars: The measured, held against the bars.
        options: What it was run with.
        environment: What it ran on.
    """

    bench: str
    measured: Figures
    floor: Figures = field(default_factory=dict)
    bars: tuple[Judged, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
        return {
            "bench": self.bench,
            "options": dict(self.options),
            "measured": {name: each.as_json() for name, each in self.measured.items()},
            "floor": {name: each.as_json() for name, each in self.floor.items()},
            "bars": [bar.as_json() for bar in self.bars],
            "environment": dict(self.environment),
        }


def merged(reports: Iterable[Report], options: Mapping[str, Any]) -> Report:
    """Make one report of several; each name gets its bench before it."""
    reports = list(reports)
    return Report(
        bench="all",
        measured=dict(_prefixed(reports, "measured")),
        floor=dict(_prefixed(reports, "floor")),
        bars=tuple(bar for report in reports for bar in report.bars),
        options={**options, **{each.bench: dict(each.options) for each in reports}},
        environment=reports[0].environment,
    )


def _prefixed(reports: list[Report], part: str) -> Iterator[tuple[str, Figure]]:
    for report in reports:
        for name, each in getattr(report, part).items():
            yield f"{report.bench}: {name}", each


def lines(report: Report) -> Iterator[str]:
    """Return a report as text, line by line."""
    chosen = " ".join(f"{k}={v}" for k, v in report.options.items())
    yield f"{report.bench}  {chosen}"
    for heading, figures in (("measured", report.measured), ("floor", report.floor)):
        if figures:
            yield f"  {heading}"
            yield from map(_figure_line, figures.items())
    if report.bars:
        yield "  bars"
        yield from map(_bar_line, report.bars)


def _figure_line(named: tuple[str, Figure]) -> str:
    name, each = named
    many = f"  ±{each.spread / 2:.0%} of {len(each.values)}"
    return (
        f"    {name:<48} {each.median:>12,.10g} {each.unit}"
        f"{many if len(each.values) > 1 else ''}"
    )


def _bar_line(judged: Judged) -> str:
    mark = "ok    " if judged.ok else "MISSED"
    return f"    {mark} {judged.name} {judged.bar:g}: {judged.value:g}"
