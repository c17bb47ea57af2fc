"""``manage.py demo``: the whole shop with one command."""

import json
import os
import random
import secrets
import shlex
import socket
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from math import inf
from threading import Thread
from time import monotonic, sleep
from typing import Any

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection
from rest_framework.authtoken.models import Token

from demo_project.processes import Processes, StopRequest
from demo_project.shop.models import Order
from demo_project.shop.orders import place
from demo_project.shop.tasks import echo, report
from pgqueue_django.models import Job
from pgqueue_django.states import FINISHED

HOST = "127.0.0.1"
PORT_MAX = 65_535
WEB = "gunicorn demo_project.wsgi --threads 8 --no-control-socket --log-level warning"
WEB_LOG = ["--access-logfile", "-", "--access-logformat", '"%(r)s" %(s)s']
WORKER = "django pgqueue_worker --queues default,mail,reports"
WORKER_OPTIONS = ["--threads", "4", "--shutdown-timeout", "5", "--name"]
WORKERS = ("worker-1", "worker-2")
ITEMS = ("tea pot", "tea cup", "tea spoon", "kettle", "tea tray")
CUSTOMERS = ("ada", "grace", "edsger", "barbara", "donald")

OPEN = """
The shop is open. Ctrl-C closes it.

  Start here  {url}/
  Admin       {url}/admin/
  Login       {user}, password {password}
  API         {url}/api/jobs
  API token   {token}

Enqueue a job by HTTP: paste this into another terminal.

{curl}
"""


class Command(BaseCommand):
    help = "Run the shop: a web server, two workers and some customers, until Ctrl-C."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="Default: 8000.")
        parser.add_argument(
            "--exit-after",
            type=float,
            default=inf,
            metavar="SECONDS",
            help="End so long after all is up.",
        )

    def handle(self, *_: Any, port: int, exit_after: float, **__: Any) -> None:
        check_port(port)
        if not exit_after > 0:
            raise CommandError(f"--exit-after: must be above 0, not {exit_after:g}")
        self.request = StopRequest()
        self.processes = Processes(self.say)
        try:
            self.say("Preparing the database")
            call_command("migrate", verbosity=0)
            if not self.request:
                self.run(port, exit_after)
        except DatabaseError as error:
            raise CommandError(f"The database: {first_line(error)}") from error
        finally:
            self.close()

    def run(self, port: int, exit_after: float) -> None:
        url = f"http://{HOST}:{port}"
        self.say("Starting a web server and two workers")
        web = [*WEB.split(), *WEB_LOG, "--bind", f"{HOST}:{port}"]
        workers = {name: [*WORKER.split(), *WORKER_OPTIONS, name] for name in WORKERS}
        self.processes.start({"web": web, **workers})
        first = echo.using(priority=100).enqueue(message="The first job.")
        self.wait_until(lambda: has_finished(first.job_id) and answers(port))
        if not self.request:
            self.say(OPEN.format(url=url, **log_in(url)))
            enqueue_some()
            Thread(target=self.serve_customers, daemon=True).start()
        end = monotonic() + exit_after
        self.wait_until(lambda: monotonic() > end)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        while not self.request and not condition():
            if ended := self.processes.ended():
                raise CommandError(f"{ended}; so the shop closes.")
            sleep(0.1)

    def serve_customers(self) -> None:
        while not self.request:
            with suppress(DatabaseError):  # the workers tell of it
                place(random_order())
            sleep(random.uniform(2, 6))
            connection.close_if_unusable_or_obsolete()

    def close(self) -> None:
        self.say("Closing")
        self.ask_to_stop()
        self.processes.stop("web", seconds=5, request=self.request)
        self.processes.stop(*WORKERS, seconds=10, request=self.request)
        self.processes.finish_output()
        self.say("Closed")
        if not os.environ.get("DATABASE_URL"):
            manage = shlex.join([sys.executable, sys.argv[0]])
            self.say("The database server runs on. This stops it:")
            self.say(f"\n{manage} pgqueue_devserver stop\n")

    def say(self, text: str) -> None:
        try:
            self.stdout.write(text)
            self.stdout.flush()
        except OSError:  # nobody is there to read it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.ask_to_stop()

    def ask_to_stop(self) -> None:
        if not self.request:
            self.request.make()


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def check_port(port: int) -> None:
    if not 1 <= port <= PORT_MAX:
        raise CommandError(f"--port: must be 1 to {PORT_MAX}, not {port}")
    with socket.socket() as probe:
        # What a server before left in TIME_WAIT is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise CommandError(
                f"Port {port} cannot be used ({error.strerror}); choose another one "
                "with --port, for example --port 8765"
            ) from error


def has_finished(job_id: int) -> bool:
    return Job.objects.filter(pk=job_id, state__in=FINISHED).exists()


def answers(port: int) -> bool:
    with closing(HTTPConnection(HOST, port, timeout=5)) as connection:
        try:
            connection.request("GET", "/api/healthz")
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False


def log_in(url: str) -> dict[str, str]:
    """Give a superuser a new password, and a token that stays the same."""
    password = secrets.token_hex(6)
    rights = {"is_active": True, "is_staff": True, "is_superuser": True}
    user, _ = User.objects.update_or_create(
        username="demo", defaults={"password": make_password(password), **rights}
    )
    token = Token.objects.get_or_create(user=user)[0].key
    curl = shlex.join(
        [
            *("curl", "-sS", f"{url}/api/jobs"),
            *("-H", f"Authorization: Token {token}"),
            *("-H", "Content-Type: application/json"),
            *("-d", json.dumps({"task": "echo", "payload": {"message": "Hello"}})),
        ]
    )
    return {"user": "demo", "password": password, "token": token, "curl": curl}


def random_order() -> Order:
    customer = f"{random.choice(CUSTOMERS)}@shop.example"
    return Order(customer=customer, item=random.choice(ITEMS))


def enqueue_some() -> None:
    """Have one of everything: jobs that succeed, wait, are tried again, and die."""
    for _ in range(5):
        place(random_order())
    place(Order(customer="nobody@shop.invalid", item="kettle"))
    report.enqueue(items=ITEMS)
    echo.using(delay=300).enqueue(message="Five minutes later.")
