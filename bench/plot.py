"""Draw ``results/`` as PNGs for the README: ``python -m bench.plot``.

Each is 800 pixels wide, with type that is readable at that width. What has not been
measured is left out.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bench.benchmark import RESULTS
from bench.stored import MODES, Report, load, median, values
from bench.tables import worker_counts

_INCHES = (8, 4)
_DOTS_PER_INCH = 100
_COLOURS = ("#1f6feb", "#d1622b", "#57606a", "#2da44e")
_PERCENTS = ("p50", "p95", "p99")

Drawing = Callable[[Axes, Report], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    folder = parser.parse_args().results
    mpl.use("Agg")
    reports = load(folder)
    for name, draw in DRAWINGS.items():
        if name in reports:
            print(_draw(folder / f"{name}.png", draw, reports[name]))


def _draw(path: Path, draw: Drawing, report: Report) -> Path:
    style: Any = {"font.size": 12, "axes.spines.top": False, "axes.spines.right": False}
    with plt.rc_context(style):
        figure, axes = plt.subplots(figsize=_INCHES, dpi=_DOTS_PER_INCH)
        axes.grid(axis="y", color="#d8dee4")
        axes.set_axisbelow(True)
        draw(axes, report)
        axes.legend(frameon=False)
        axes.set_ylim(bottom=0)
        figure.tight_layout()
        figure.savefig(path)
        plt.close(figure)
    return path


def _claim_modes(axes: Axes, report: Report) -> None:
    counts = worker_counts(report)
    for mode, colour in zip(MODES, _COLOURS, strict=False):
        names = [f"{mode}, {n} workers" for n in counts]
        repeats = [values(report, name) for name in names]
        axes.plot(
            counts,
            [median(report, name) for name in names],
            marker="o",
            color=colour,
            label=mode.replace("-", " ").upper(),
        )
        axes.fill_between(
            counts,
            list(map(min, repeats)),
            list(map(max, repeats)),
            color=colour,
            alpha=0.15,
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(n) for n in counts])
    axes.set_xlabel("workers, one job a claim")
    axes.set_ylabel("jobs/s")


def _bars(
    axes: Axes, groups: dict[str, list[float]], ticks: tuple[str, ...], unit: str
) -> None:
    width = 0.8 / len(groups)
    for n, ((name, heights), colour) in enumerate(
        zip(groups.items(), _COLOURS, strict=False)
    ):
        places = [
            tick + (n - (len(groups) - 1) / 2) * width for tick in range(len(ticks))
        ]
        drawn = axes.bar(places, heights, width * 0.92, color=colour, label=name)
        axes.bar_label(drawn, fmt="{:,.3g}", fontsize=10)
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_ylabel(unit)


def _latency(axes: Axes, report: Report) -> None:
    groups = {
        "enqueue to first line": [median(report, f"immediate {p}") for p in _PERCENTS],
        "delayed, after its time": [median(report, f"delayed {p}") for p in _PERCENTS],
        "bare LISTEN": [median(report, f"LISTEN {p}", "floor") for p in _PERCENTS],
    }
    _bars(axes, groups, _PERCENTS, "ms")


def _bloat(axes: Axes, report: Report) -> None:
    quarters = tuple(f"quarter {n}" for n in range(1, 5))
    groups = {"jobs/s": [median(report, f"throughput, {q}") for q in quarters]}
    _bars(axes, groups, quarters, "jobs/s")
    claims = axes.twinx()
    claims.plot(
        range(len(quarters)),
        [median(report, f"claim p95, {q}") for q in quarters],
        color=_COLOURS[1],
        marker="o",
    )
    claims.set_ylim(bottom=0)
    claims.set_ylabel("claim p95, ms", color=_COLOURS[1])


def _growth(axes: Axes, report: Report) -> None:
    groups = {
        "empty table": values(report, "throughput, empty table", "floor"),
        "full table": values(report, "throughput, full table"),
    }
    ticks = tuple(f"repeat {n + 1}" for n in range(len(groups["full table"])))
    _bars(axes, groups, ticks, "jobs/s")


def _throughput(axes: Axes, report: Report) -> None:
    shown = {
        "workers": median(report, "throughput"),
        "bare loop": median(report, "bare loop of this package's statements", "floor"),
        "minimal loop": median(
            report, "minimal loop of hand-written statements", "floor"
        ),
    }
    _bars(axes, {"no-op jobs/s": list(shown.values())}, tuple(shown), "jobs/s")


DRAWINGS: dict[str, Drawing] = {
    "claim_modes": _claim_modes,
    "throughput": _throughput,
    "latency": _latency,
    "bloat": _bloat,
    "growth": _growth,
}


if __name__ == "__main__":
    main()
