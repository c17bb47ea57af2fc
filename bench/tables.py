"""Keep tables equal to ``results/``: ``python -m bench.tables [--check]``.

A table stands between ``<!-- bench:NAME -->`` and ``<!-- /bench:NAME -->``. NAME is one
of TABLES here. ``--check`` changes nothing, and exits with 1 where a table differs.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.benchmark import RESULTS
from bench.peers.known import OURS
from bench.stored import FOR_UPDATE, SKIP_LOCKED, Report, load, median

_FILES = [RESULTS.parent / "README.md", RESULTS.parent / "docs" / "performance.md"]
_TABLE = re.compile(
    r"(<!-- bench:(?P<name>[\w-]+) -->\n).*?(<!-- /bench:(?P=name) -->)", re.DOTALL
)
_NUMBERED = re.compile(rf"{SKIP_LOCKED}, (\d+) workers")

Rows = Iterable[tuple[object, ...]]


class NoSuchTable(Exception):
    """A marker names what cannot be made; the message says why."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="Change nothing.")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("files", type=Path, nargs="*", default=_FILES)
    options = parser.parse_args()
    reports = load(options.results)
    stale = [p for p in options.files if _renew(p, reports, check=options.check)]
    if options.check and stale:
        sys.exit(
            f"{', '.join(map(str, stale))}: tables differ from {options.results}; "
            "run: python -m bench.tables"
        )


def _renew(path: Path, reports: dict[str, Report], *, check: bool) -> bool:
    text = path.read_text(encoding="utf-8")
    try:
        fresh = renewed(text, reports)
    except NoSuchTable as error:
        sys.exit(f"{path}: {error}")
    if fresh != text and not check:
        path.write_text(fresh, encoding="utf-8")
    return fresh != text


def renewed(text: str, reports: dict[str, Report]) -> str:
    """Return a text with its tables made anew.

    Raises:
        NoSuchTable: A marker's name is unknown, or was not measured.
    """
    return _TABLE.sub(lambda m: m[1] + table(m["name"], reports) + m[3], text)


def table(name: str, reports: dict[str, Report]) -> str:
    make = TABLES.get(name)
    if make is None:
        raise NoSuchTable(f"bench:{name} is none of {', '.join(sorted(TABLES))}")
    try:
        return make(reports)
    except KeyError as error:
        raise NoSuchTable(
            f"bench:{name} needs {error}, which results/ lacks"
        ) from error


def _markdown(head: tuple[str, ...], rows: Rows) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def number(value: float) -> str:
    """Return a number as the tables show it: three figures, thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _bars(reports: dict[str, Report]) -> str:
    judged = [(n, bar) for n, each in reports.items() for bar in each.get("bars", ())]
    return _markdown(
        ("bench", "measured", "bar", "value", ""),
        (
            (n, b["name"], number(b["bar"]), number(b["value"]), _mark(ok=b["ok"]))
            for n, b in judged
        ),
    )


def _mark(*, ok: bool) -> str:
    return "ok" if ok else "missed"


def _figures(bench: str) -> Callable[[dict[str, Report]], str]:
    def make(reports: dict[str, Report]) -> str:
        report = reports[bench]
        return _markdown(
            ("", "median", "unit", "spread"),
            (
                (name, number(f["median"]), f["unit"], f"{f['spread']:.0%}")
                for part in ("measured", "floor")
                for name, f in report[part].items()
            ),
        )

    return make


def _faults(reports: dict[str, Report]) -> str:
    """Return the fault programs, each with its ledger's count."""
    judged = {n: each for n, each in reports.items() if "stale_writes_accepted" in each}
    if not judged:
        raise KeyError("crash")
    return _markdown(
        (
            *("program", "jobs", "lost", "stale writes accepted", "duplicates"),
            *("attempts interrupted", "recovery, s", ""),
        ),
        (
            (
                name.replace("_", " "),
                number(each["jobs"]),
                *(each[key] for key in ("lost", "stale_writes_accepted", "duplicates")),
                number(each["interrupted"]),
                _seconds(each["recovery_seconds"]),
                _mark(ok=each["ok"]),
            )
            for name, each in judged.items()
        ),
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def worker_counts(report: Report) -> list[int]:
    """Return the numbers of workers that the claim modes were measured with."""
    found = map(_NUMBERED.fullmatch, report["measured"])
    return sorted(int(matched[1]) for matched in found if matched)


def _claim_modes(reports: dict[str, Report]) -> str:
    report = reports["claim_modes"]
    return _markdown(
        ("workers", "SKIP LOCKED, jobs/s", "FOR UPDATE, jobs/s", "times"),
        (
            (
                n,
                number(median(report, f"{SKIP_LOCKED}, {n} workers")),
                number(median(report, f"{FOR_UPDATE}, {n} workers")),
                number(median(report, f"skip-locked over for-update, {n} workers")),
            )
            for n in worker_counts(report)
        ),
    )


def peers_throughput(reports: dict[str, Report]) -> str:
    """Return the queues by their jobs/s, the fastest first."""
    report = reports["peers"]
    found = _peers(report, "throughput")
    own = found.get(OURS)
    rows = [
        (
            peer,
            report["peers"][peer]["version"],
            number(rate),
            f"{report['measured'][f'throughput: {peer}']['spread']:.0%}",
            number(rate / own) if own else "",
        )
        for peer, rate in sorted(found.items(), key=lambda each: -each[1])
    ]
    head = ("queue", "version", "jobs/s", "spread", f"times {OURS}")
    return _markdown(head, [*rows, *_left_out(report, len(head))])


def peers_latency(reports: dict[str, Report]) -> str:
    """Return the queues by their pickup, the fastest first; ms."""
    report = reports["peers"]
    whats = (
        "pickup p50",
        "pickup p99",
        "call to handler p50",
        "call to handler p99",
    )
    found = {what: _peers(report, what) for what in whats}
    rows = [
        (peer, *(number(found[what][peer]) for what in whats))
        for peer in sorted(found[whats[0]], key=found[whats[0]].__getitem__)
    ]
    head = ("queue", *(f"{what}, ms" for what in whats))
    return _markdown(head, [*rows, *_left_out(report, len(head))])


def _peers(report: Report, what: str) -> dict[str, float]:
    """Return the medians of the queues that were measured."""
    named = {peer: f"{what}: {peer}" for peer in report["peers"]}
    return {
        peer: median(report, name)
        for peer, name in named.items()
        if name in report["measured"]
    }


def _left_out(report: Report, width: int) -> Rows:
    """Name those that were not measured, and why."""
    for peer, told in report["peers"].items():
        if reason := told["left_out"]:
            yield (peer, f"left out: {reason}", *[""] * (width - 2))


def _environment(reports: dict[str, Report]) -> str:
    seen = {
        (
            e["cpu"],
            e["cpus"],
            e["memory_mb"],
            e["python"],
            e["server"]["server_version"],
        )
        for e in (each.get("environment", {}) for each in reports.values())
        if "cpu" in e
    }
    return _markdown(
        ("CPU", "cores", "memory, MB", "Python", "PostgreSQL"), sorted(seen)
    )


_BENCHES = (
    "throughput",
    "latency",
    "enqueue",
    "growth",
    "bloat",
    "queues",
    "metrics",
    "idle",
    "soak",
    "profile",
)

TABLES: dict[str, Callable[[dict[str, Report]], str]] = {
    "bars": _bars,
    "environment": _environment,
    "claim-modes": _claim_modes,
    "faults": _faults,
    "peers-throughput": peers_throughput,
    "peers-latency": peers_latency,
    "per-job": _figures("per_job"),
    "million": _figures("million"),
    **{name: _figures(name) for name in _BENCHES},
}


if __name__ == "__main__":
    main()
