"""``manage.py pgqueue_devserver``: the embedded PostgreSQL."""

import sys
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from pgqueue_django import devserver

NOT_RUNNING = 3  # exit status, as of "systemctl status"


class Command(BaseCommand):
    """Start, stop or look at the embedded PostgreSQL."""

    help = "Start, stop or look at the embedded PostgreSQL for development."
    requires_system_checks: list[str] = []  # noqa: RUF012 - as Django declares it
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        """Take one action, and the directory."""
        parser.add_argument(
            "action",
            choices=sorted(self._actions()),
            help="status and url exit with 3 when the server is not running.",
        )
        parser.add_argument(
            "--data-dir",
            help="The server's directory. Default: PGQUEUE_DEVSERVER_DIR, else what "
            "the settings give to devserver.database_url, else ./.pgdata.",
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002
        """Do what was asked for."""
        try:
            self._actions()[options["action"]](options["data_dir"])
        except devserver.DevServerError as error:
            raise CommandError(str(error)) from error

    def _actions(self) -> dict[str, Callable[[str | None], None]]:
        return {
            "start": self._start,
            "status": self._status,
            "stop": self._stop,
            "url": self._url,
        }

    def _start(self, data_dir: str | None) -> None:
        was_running = devserver.status(data_dir).running
        url = devserver.ensure_running(data_dir)
        self.stdout.write(url)
        # Apart from the URL, so that $(manage.py pgqueue_devserver start) is one.
        self.stderr.write("already running" if was_running else "started")

    def _stop(self, data_dir: str | None) -> None:
        stopped = devserver.stop(data_dir)
        self.stdout.write("stopped" if stopped else "not running")

    def _status(self, data_dir: str | None) -> None:
        status = devserver.status(data_dir)
        self.stdout.write("running" if status.running else "not running")
        lines = {
            "problem": status.problem,
            "pid": status.pid,
            "version": status.version,
            "url": status.url,
            "data": status.data_dir,
        }
        for name, value in lines.items():
            if value:
                self.stdout.write(f"{name}: {value}")
        if not status.running:
            sys.exit(NOT_RUNNING)

    def _url(self, data_dir: str | None) -> None:
        status = devserver.status(data_dir)
        if not status.url:
            raise CommandError(_why_no_url(status), returncode=NOT_RUNNING)
        self.stdout.write(status.url)


def _why_no_url(status: devserver.Status) -> str:
    if status.running:
        return f"the server of {status.data_dir} does not answer: {status.problem}"
    return f"no server runs in {status.data_dir}"
