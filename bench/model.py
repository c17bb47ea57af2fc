"""Drive the queue and a model of it for as long as asked: ``python -m bench.model``.

First the walk through every interleaving of statements on one job, then random steps
until the time is over, each round of them with the next seed. What runs is
``tests/model``, in a database of its own. Exits with 1 when the queue does what the
model does not; the shortest steps found that show it are then among the problems.
"""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from time import monotonic
from typing import Any, Final

from bench.projects import set_up

# Examples of a round: about a minute, so that the end is not far beyond what was asked.
_ROUND: Final = 50


def main() -> None:
    options = _options()
    # Before any connection. What is shown needs no disk, and is shown so more often.
    os.environ["PGOPTIONS"] = "-c synchronous_commit=off"
    set_up()
    with _own_database():
        report = _report(options)
    print(json.dumps(report, indent=None if options.json else 2))
    sys.exit(not report["ok"])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1, help="Of the first round.")
    parser.add_argument("--steps", type=int, default=60, help="Of an example.")
    parser.add_argument("--attempts", type=int, default=3, help="Of the walk's job.")
    parser.add_argument("--json", action="store_true", help="Print it on one line.")
    return parser.parse_args()


@contextmanager
def _own_database() -> Iterator[None]:
    from django.core.management import call_command
    from django.db import DEFAULT_DB_ALIAS, connections

    from pgqueue_django.bench.databases import own_databases

    with own_databases(DEFAULT_DB_ALIAS, 1) as names:
        connections.close_all()
        # The one connection of this process that Django makes, and those beside it.
        connections[DEFAULT_DB_ALIAS].settings_dict["NAME"] = names["default"]
        call_command("migrate", "pgqueue_django", verbosity=0)
        yield
        connections.close_all()


def _report(options: argparse.Namespace) -> dict[str, Any]:
    from tests.model.machine import World

    begun = monotonic()
    report: dict[str, Any] = {"bench": "model", "seed": options.seed, "problems": []}
    with closing(World()) as world:
        try:
            report["walk"] = _walked(options.attempts)
            report["rounds"] = _driven(world, options, begun + 60 * options.minutes)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            report["problems"] = traceback.format_exception(error, chain=False)
        figures = _figures(world.seen, ok=not report["problems"])
        return report | figures | {"seconds": round(monotonic() - begun, 1)}


def _walked(max_attempts: int) -> dict[str, int]:
    from tests.model.walk import Walk

    with closing(Walk(max_attempts)) as walk:
        covered = walk.run()
    return {
        "max_attempts": max_attempts,
        "states": len(covered.states),
        "statements": len(covered.edges),
        "orders_of_10_statements": covered.orders(10),
    }


def _driven(world: Any, options: argparse.Namespace, until: float) -> int:
    from hypothesis import seed
    from hypothesis.stateful import run_state_machine_as_test

    from tests.model.machine import bounded, machine_in

    rounds = 0
    settings = bounded(_ROUND, derandomize=False, stateful_step_count=options.steps)
    while rounds == 0 or monotonic() < until:
        machine = seed(options.seed + rounds)(machine_in(world))
        run_state_machine_as_test(machine, settings=settings)
        rounds += 1
    return rounds


def _figures(seen: Mapping[str, int], *, ok: bool) -> dict[str, Any]:
    # One disagreement ends the run, so that there are none of these, or who knows.
    wrong = 0 if ok else None
    return {
        "examples": seen["examples"],
        "steps": seen["steps"],
        "jobs": seen["jobs"],
        "claims": seen["claims"],
        "succeeded": seen["succeeded"],
        "lost": wrong,
        "stale_writes_refused": seen["refused"],
        "stale_writes_accepted": wrong,
        "duplicates": wrong,
        "interrupted": seen["interrupted"],
        "recovery_seconds": None,
        "ok": ok,
    }


if __name__ == "__main__":
    main()
