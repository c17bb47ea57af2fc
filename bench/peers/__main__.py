"""Compare queues: ``python -m bench.peers``. Writes ``results/peers.json``."""

import argparse
import json
import signal
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.benchmark import RESULTS
from bench.projects import set_up
from bench.tables import peers_latency, peers_throughput

_VENVS: Final = RESULTS.parent / ".venvs" / "peers"


def main() -> None:
    options = _options()
    # So that workers and databases are gone then too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    set_up()
    stored = _compared(options)
    text = json.dumps(stored, indent=2)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "peers.json").write_text(text + "\n", encoding="utf-8")
    if options.json:
        print(text)
        return
    reports = {"peers": stored}
    print(peers_throughput(reports), peers_latency(reports), sep="\n", end="")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="QUEUE", help="Some, by name.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=8.0, help="That no-op jobs shall last."
    )
    parser.add_argument("--rate", type=float, default=50.0, help="Stamped jobs/s.")
    parser.add_argument("--stamps", type=int, default=300, help="Stamped jobs.")
    parser.add_argument(
        "--python", default=sys.executable, help="What all venvs are made from."
    )
    parser.add_argument("--venvs", type=Path, default=_VENVS, metavar="FOLDER")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("--json", action="store_true", help="Print the report.")
    return parser.parse_args()


def _compared(options: argparse.Namespace) -> dict[str, Any]:
    # Django is set up by now, which some of these need.
    from django.db import router

    from bench.peers.comparing import described, report
    from bench.peers.known import PEERS
    from bench.peers.measuring import Load
    from bench.peers.running import Run
    from pgqueue_django.bench.connecting import connect
    from pgqueue_django.bench.environment import environment
    from pgqueue_django.models import Job

    alias = router.db_for_write(Job)
    with connect(alias, dbname="postgres") as connection:
        seen = environment(connection)
    load = Load(options.rate, options.stamps, options.seconds)
    run = Run(alias, load, _say)
    run.prepare(_chosen(PEERS, options.only), options.venvs, options.python)
    for n in range(options.repeats):
        run.repeat(n)
    chosen = {
        "repeats": options.repeats,
        "seconds": options.seconds,
        "rate": options.rate,
        "stamps": options.stamps,
    }
    made = replace(report(run.measured, chosen), environment=seen)
    return {**made.as_json(), "peers": described(run.versions, run.reasons)}


def _chosen(peers: Iterable[Any], only: list[str] | None) -> list[Any]:
    known = {each.name: each for each in peers}
    if unknown := set(only or ()) - set(known):
        sys.exit(f"--only: {min(unknown)!r} is none of {', '.join(known)}")
    return [each for name, each in known.items() if not only or name in only]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
