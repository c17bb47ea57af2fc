"""``manage.py pgqueue_worker``: claim and run jobs until told to stop."""

import logging
from argparse import ArgumentParser
from threading import current_thread, main_thread
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connections, router

from pgqueue_django.db import WorkerSession, is_missing_table, is_passing
from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.models import Job
from pgqueue_django.worker import Worker, WorkerOptions
from pgqueue_django.worker.exits import leave
from pgqueue_django.worker.reloading import Reloader, is_child, run_until_changed
from pgqueue_django.worker.supervisor import PROCESSES_MAX, Supervisor


class Command(BaseCommand):
    """Runs workers under a supervisor, or one in this process."""

    help = "Claim and run jobs until SIGTERM or SIGINT; a second one ends at once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options; values are checked by WorkerOptions."""
        parser.add_argument(
            "--queues",
            default="default",
            help="Queues in strict order (a,b), or by weight (a=3,b=1).",
        )
        parser.add_argument(
            "--threads", type=int, default=4, help="Handlers at the same time."
        )
        parser.add_argument(
            "--async-slots", type=int, help="Async handlers at the same time."
        )
        parser.add_argument("--lease", type=float, help="Seconds that a claim lasts.")
        parser.add_argument(
            "--poll-interval", type=float, help="Longest seconds between two looks."
        )
        parser.add_argument(
            "--shutdown-timeout",
            type=float,
            help="Seconds that running jobs may go on after a signal.",
        )
        parser.add_argument(
            "--drain", action="store_true", help="End when nothing is due any more."
        )
        parser.add_argument("--max-jobs", type=int, help="End after so many jobs.")
        parser.add_argument(
            "--processes",
            type=int,
            help="Worker processes under the supervisor; 1 by default.",
        )
        parser.add_argument(
            "--no-supervisor",
            action="store_true",
            help="Work in this very process, as --drain, --max-jobs and --reload do.",
        )
        parser.add_argument(
            "--max-jobs-per-child",
            type=int,
            help="Replace a process after so many jobs.",
        )
        parser.add_argument(
            "--max-rss",
            type=int,
            help="End, or be replaced, above so many megabytes of memory.",
        )
        parser.add_argument("--name", help="First part of the worker's identity.")
        parser.add_argument("--database", help="Alias of the database with the jobs.")

        parser.add_argument(
            "--reload",
            action="store_true",
            help="For development: start anew when code changes, after running jobs.",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run the workers, and exit with their code."""
        for flag in ("reload", "no_supervisor"):
            if options[flag] and options["processes"] is not None:
                name = flag.replace("_", "-")
                raise CommandError(
                    f"--{name}: goes with one process, not with --processes"
                )
        _show_log()
        worker = _worker(options)
        alias = worker.options.database or router.db_for_write(Job)
        _check_database(alias)
        try:
            code = _run(worker, options, alias)
        except DatabaseError as error:
            first_line = str(error).partition("\n")[0]
            advice = " Run: manage.py migrate" if is_missing_table(error) else ""
            raise CommandError(
                f"The job table cannot be read ({first_line}).{advice}"
            ) from error
        if code:
            # Handlers may still run in threads that Python would wait for.
            leave(code)


def _run(worker: Worker, options: dict[str, Any], alias: str) -> int:
    if _is_supervised(options):
        return _supervise(options, alias)
    if not options["reload"]:
        return worker.run()
    return run_until_changed(worker) if is_child() else Reloader().run()


def _is_supervised(options: dict[str, Any]) -> bool:
    if options["processes"] is not None:
        return True
    # What ends by itself needs nobody to start it again.
    ends = options["drain"] or options["max_jobs"] is not None
    alone = ends or options["no_supervisor"] or options["reload"]
    # Called from another thread it has no signals, and is no process to fork.
    return not alone and current_thread() is main_thread()


def _show_log() -> None:
    """Log to stderr, where the project's LOGGING says nothing of this package."""
    logger = logging.getLogger("pgqueue_django")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(
            logging.Formatter("{asctime} {levelname} {message}", style="{")
        )
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)


def _supervise(options: dict[str, Any], alias: str) -> int:
    if options["max_jobs"] is not None:
        raise CommandError(
            "--max-jobs: goes with one process; with --processes say "
            "--max-jobs-per-child"
        )
    processes = 1 if options["processes"] is None else options["processes"]
    if not 1 <= processes <= PROCESSES_MAX:
        raise CommandError(
            f"--processes: must be from 1 to {PROCESSES_MAX}, not {processes}"
        )
    session = WorkerSession(alias, name="pgqueue supervisor")
    _check_table(session)
    _worker_options = {**options, "max_jobs": options["max_jobs_per_child"]}
    supervisor = Supervisor(
        processes,
        lambda: _worker(_worker_options),
        session,
        replace=not options["drain"],
        shutdown_timeout=_worker(options).options.shutdown_timeout,
    )
    # A connection must not be shared with children.
    connections.close_all()
    return supervisor.run()


def _worker(options: dict[str, Any]) -> Worker:
    names = WorkerOptions.__dataclass_fields__.keys() - {"queues"}
    given = {name: options[name] for name in names if options.get(name) is not None}
    try:
        return Worker(options["queues"], **given)
    except InvalidJob as error:
        flag = f"--{error.field.replace('_', '-')}"
        raise CommandError(f"{flag}: {error.message}") from error


def _check_table(session: WorkerSession) -> None:
    """Fail now where no wait helps: children would be started again and again."""
    try:
        Job.objects.on(session).next_due()
    except DatabaseError as error:
        if not is_passing(error):
            raise
    finally:
        session.close()


def _check_database(alias: str) -> None:
    if connections[alias].vendor != "postgresql":
        raise CommandError(
            f"DATABASES[{alias!r}] is {connections[alias].display_name}; "
            "pgqueue_django needs PostgreSQL"
        )
