"""``manage.py pgqueue_bench``: measure the queue on the configured server."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections, router

from pgqueue_django.bench import baselines, reports
from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.flags import add_options, add_outputs
from pgqueue_django.bench.lab import run
from pgqueue_django.bench.reports import Report
from pgqueue_django.bench.suite import BENCHES
from pgqueue_django.models import Job

_ALL = "all"
_ALL_OPTIONS = {"repeats": 5, "scale": 1.0}


class Command(BaseCommand):
    """Runs one bench, or all of them small."""

    help = (
        "Measure the queue, in a database made for it on the configured server and "
        "dropped afterwards."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        benches = parser.add_subparsers(dest="bench", metavar="BENCH", required=True)
        for name, bench in BENCHES.items():
            own = benches.add_parser(name, help=bench.help, description=bench.help)
            add_options(own, bench.options)
            add_outputs(own)
        every = benches.add_parser(_ALL, help="All of these, with small sizes.")
        add_options(every, _ALL_OPTIONS)
        add_outputs(every)

    def handle(self, *_args: Any, **options: Any) -> None:
        bench = options["bench"]
        stored = _baseline(bench, options["against"])
        _check_folder(options["save"])
        alias = _alias(options["database"])
        try:
            report = self._run(bench, alias, options)
        except BenchError as error:
            raise CommandError(f"{bench}: {error}") from error
        if options["save"]:
            baselines.save(report, options["save"])
        compared = _compare(report, stored) if stored else []
        self._print(report, compared, as_json=options["json"])
        if stored and baselines.overall(compared) == "worse":
            sys.exit(1)

    def _run(self, bench: str, alias: str, options: dict[str, Any]) -> Report:
        if bench != _ALL:
            chosen = {name: options[name] for name in BENCHES[bench].options}
            return _run_one(bench, alias, chosen)
        done = []
        for name, each in BENCHES.items():
            chosen = each.small_options(options["scale"])
            if "repeats" in chosen:
                chosen["repeats"] = options["repeats"]
            done.append(_run_one(name, alias, chosen))
        return reports.merged(done, {name: options[name] for name in _ALL_OPTIONS})

    def _print(
        self, report: Report, compared: list[baselines.Compared], *, as_json: bool
    ) -> None:
        if as_json:
            self.stdout.write(json.dumps(_json(report, compared), indent=2))
            return
        for line in reports.lines(report):
            self.stdout.write(line)
        for each in compared:
            self.stdout.write(
                f"  {each.verdict:<6} {each.name}: {each.median:g}, was {each.stored:g}"
            )


def _run_one(bench: str, alias: str, options: dict[str, Any]) -> Report:
    known = BENCHES[bench]
    return run(bench, known.target, alias, options, databases=known.databases)


def _json(report: Report, compared: list[baselines.Compared]) -> dict[str, Any]:
    if not compared:
        return report.as_json()
    against = {
        "verdict": baselines.overall(compared),
        "figures": [each.as_json() for each in compared],
    }
    return {**report.as_json(), "against": against}


def _baseline(bench: str, path: Path | None) -> dict[str, Any] | None:
    if path is None:
        return None
    with _naming("--against", path):
        return baselines.load(path, bench)


def _compare(report: Report, stored: dict[str, Any]) -> list[baselines.Compared]:
    try:
        return baselines.compare(report, stored)
    except BenchError as error:
        raise CommandError(f"--against: {error}") from error


@contextmanager
def _naming(flag: str, path: Path) -> Iterator[None]:
    try:
        yield
    except BenchError as error:
        raise CommandError(f"{flag}: {path} {error}") from error


def _check_folder(path: Path | None) -> None:
    # Before the bench, which may take an hour.
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise CommandError(f"--save: {path} is no file in a folder that exists")


def _alias(given: str | None) -> str:
    alias = given or router.db_for_write(Job)
    if alias not in connections.settings:
        known = ", ".join(sorted(connections.settings))
        raise CommandError(f"--database: {alias!r} is none of DATABASES ({known})")
    if connections[alias].vendor != "postgresql":
        raise CommandError(
            f"DATABASES[{alias!r}] is {connections[alias].display_name}; "
            "pgqueue_django needs PostgreSQL"
        )
    return alias
