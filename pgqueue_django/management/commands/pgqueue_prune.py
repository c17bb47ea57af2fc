"""``manage.py pgqueue_prune``: delete finished jobs that are old enough."""

import re
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connections, router

from pgqueue_django.conf import get_settings
from pgqueue_django.db import DjangoSession, Session, is_missing_table
from pgqueue_django.limits import DELAY_SECONDS_MAX
from pgqueue_django.maintenance.pruner import Keep, Sweep
from pgqueue_django.managers.pruning import count_old
from pgqueue_django.models import Job
from pgqueue_django.states import FINISHED

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LARGEST_BATCH = 100_000


class Command(BaseCommand):
    """Does once, without a worker, what every worker's pruner does all the time."""

    help = (
        "Delete finished jobs that are older than PGQUEUE['RETENTION'] says, in small "
        "batches, each committed. It can be stopped at any time."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--state",
            action="append",
            choices=sorted(FINISHED),
            help="Only this state; may be repeated.",
        )
        parser.add_argument(
            "--queue", action="append", help="Only this queue; may be repeated."
        )
        parser.add_argument(
            "--older-than",
            type=_age,
            help="Instead of what the settings say: seconds since the finish, or with "
            "a unit: 90m, 12h, 7d. What the settings keep for ever still stays, unless "
            "--state names it.",
        )
        parser.add_argument(
            "--batch",
            type=_whole(_LARGEST_BATCH),
            default=1_000,
            help="Most jobs in one statement (1,000).",
        )
        parser.add_argument(
            "--share",
            type=_whole(100),
            default=10,
            help="Percent of the time to delete in (10); the rest belongs to others.",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="Only count what would go."
        )
        parser.add_argument("--database", help="Alias of the database with the jobs.")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Count or delete, and say how many."""
        alias = options["database"] or router.db_for_write(Job)
        if alias not in connections.settings:
            known = ", ".join(sorted(connections.settings))
            raise CommandError(f"--database: {alias!r} is none of DATABASES ({known})")
        try:
            session = DjangoSession(alias)
            sweep = Sweep(session, _keep(options), batch=options["batch"])
            if options["dry_run"]:
                self._count(session, sweep)
            else:
                self._prune(sweep, options["share"] / 100)
        except DatabaseError as error:
            advice = " Run: manage.py migrate" if is_missing_table(error) else ""
            first_line = str(error).partition("\n")[0]
            raise CommandError(f"{first_line}.{advice}") from error

    def _count(self, session: Session, sweep: Sweep) -> None:
        for group, age in sweep.groups:
            count = count_old(session, group, age=age)
            self.stdout.write(f"{group.queue} {group.state}: {count:,}")

    def _prune(self, sweep: Sweep, share: float) -> None:
        deleted = 0
        try:
            while sweep.groups:
                since = monotonic()
                deleted += sweep.step()
                Event().wait((monotonic() - since) * (1 / share - 1))
        finally:
            # Also after an error or Ctrl-C: what was deleted is gone.
            self.stdout.write(f"{deleted:,} jobs deleted")


def _keep(options: dict[str, Any]) -> Keep:
    configured = get_settings().retention_of
    age, states, queues = options["older_than"], options["state"], options["queue"]

    def keep(queue: str, state: str) -> float | None:
        if (states and state not in states) or (queues and queue not in queues):
            return None
        default = configured(queue, state)
        if age is None or (default is None and not states):
            return default
        return float(age)

    return keep


def _age(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,10}(?:\.[0-9]{1,6})?)([smhd]?)", text)
    seconds = float(found[1]) * _UNITS[found[2]] if found else -1.0
    if not 0 <= seconds <= DELAY_SECONDS_MAX:
        raise ArgumentTypeError(
            f"must be seconds, or a number with s, m, h or d, of at most "
            f"{DELAY_SECONDS_MAX:,} s, not {text!r}"
        )
    return seconds


def _whole(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
            raise ArgumentTypeError(
                f"must be a whole number from 1 to {most:,}, not {text!r}"
            )
        return int(text)

    return read
