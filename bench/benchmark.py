"""Measure what the README shows: ``python -m bench.benchmark``.

Writes one JSON file for each bench to ``results/``. ``--only`` names some of them.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench.projects import set_up

RESULTS = Path(__file__).resolve().parent.parent / "results"
WORKERS = (1, 2, 4, 8, 16, 32)

# A shipped bench with other options, under another name.
_VARIANTS = {
    "per_job": ("throughput", ["--durability=per_job", "--threads=16", "--jobs=10000"]),
    "million": ("enqueue", ["--jobs=100", "--many=1000000", "--repeats=1"]),
}


def main() -> None:
    options = _options()
    set_up()
    names = options.only or ["claim_modes", *_VARIANTS, *_shipped()]
    options.results.mkdir(parents=True, exist_ok=True)
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        report = _claim_modes(options) if name == "claim_modes" else _run(name, options)
        text = json.dumps(report, indent=2) + "\n"
        (options.results / f"{name}.json").write_text(text, encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="BENCH", help="Some, by name.")
    parser.add_argument("--jobs", type=int, default=3_000, help="Of the claim modes.")
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    return parser.parse_args()


def _shipped() -> list[str]:
    from pgqueue_django.bench.suite import BENCHES

    return list(BENCHES)


def _claim_modes(options: argparse.Namespace) -> dict[str, Any]:
    from django.db import router

    from pgqueue_django.bench.lab import run
    from pgqueue_django.models import Job

    chosen = {
        "jobs": options.jobs,
        "workers": list(options.workers),
        "repeats": options.repeats,
    }
    alias = router.db_for_write(Job)
    return run("claim_modes", "bench.claim_modes:run", alias, chosen).as_json()


def _run(name: str, options: argparse.Namespace) -> dict[str, Any]:
    from io import StringIO

    from django.core.management import call_command

    from pgqueue_django.bench.suite import BENCHES

    bench, flags = _VARIANTS.get(name, (name, []))
    if bench not in BENCHES:
        known = ("claim_modes", *_VARIANTS, *BENCHES)
        sys.exit(f"--only: {name!r} is none of {', '.join(known)}")
    if "repeats" in BENCHES[bench].options:
        flags = [f"--repeats={options.repeats}", *flags]
    printed = StringIO()
    call_command("pgqueue_bench", bench, *flags, "--json", stdout=printed)
    report: dict[str, Any] = json.loads(printed.getvalue())
    return report


if __name__ == "__main__":
    main()
