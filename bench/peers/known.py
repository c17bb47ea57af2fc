"""The queues that are compared, and how each is configured."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

OURS: Final = "pgqueue_django"
PGQUEUER: Final = "pgqueuer"
CELERY: Final = "Celery on Redis"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A queue.

    Args:
        name: As its users call it.
        package: Of its version; empty for this one.
        side: The module of ``bench.peers.sides`` that sets it up and enqueues.
        requirements: What its venv has. Of these and newer, the newest are installed.
        worker: The command that starts workers: a program of its venv, with arguments.
        copies: How many of that command make two worker processes.
        rate: About how many jobs it does in a second, on two cores; so that each is
            given as many as keep it busy for the same time.
        unfinished: Asks its database whether a job has no outcome yet; empty where
            Redis has the jobs.
        environment: Variables of its processes.
        configured: What is not as installed.
    """

    name: str
    package: str
    side: str
    requirements: tuple[str, ...]
    worker: tuple[str, ...]
    rate: int
    configured: str
    copies: int = 2
    unfinished: str = ""
    environment: dict[str, str] = field(default_factory=dict)


def _any_left(table: str, column: str, states: Sequence[str], key: str = "id") -> str:
    """Ask for the newest job first: nearly all are done when that one is."""
    listed = ", ".join(f"'{state}'" for state in states)
    left = f"{column} IN ({listed})"
    return (
        f"SELECT coalesce((SELECT {left} FROM {table} ORDER BY {key} DESC LIMIT 1),"  # noqa: S608 - words of this file
        f" false) OR EXISTS (SELECT FROM {table} WHERE {left})"
    )


def _django(apps: Sequence[str], backend: str = "", **more: object) -> dict[str, str]:
    given = {"PEER_APPS": list(apps), **more}
    if backend:
        given["PEER_TASKS"] = {"default": {"BACKEND": backend}}
    return {
        "DJANGO_SETTINGS_MODULE": "bench.peers.sides.django_settings",
        **{name: json.dumps(value) for name, value in given.items()},
    }


_DJANGO: Final = ("Django>=6.0", "psycopg[binary,pool]>=3.2.4")
_OPEN: Final = "connections stay open"

PEERS: Final = (
    Peer(
        name=OURS,
        package="",
        side="pgqueue",
        requirements=(
            "Django>=5.2",
            "psycopg[binary,pool]>=3.2.4",
            "django-tasks>=0.12; python_version < '3.12'",
        ),
        worker=("python", "-m", "django", "pgqueue_worker", "--processes=2"),
        copies=1,
        rate=25_000,
        unfinished=_any_left("pgqueue_job", "state", ("queued", "running")),
        environment=_django(
            ["pgqueue_django"],
            PEER_PGQUEUE={"TASK_MODULES": ["bench.peers.sides.pgqueue_tasks"]},
        ),
        configured="as installed; enqueue_many",
    ),
    Peer(
        name=PGQUEUER,
        package="pgqueuer",
        side="pgq",
        requirements=("pgqueuer>=1.6", "asyncpg>=0.32", "uvloop>=0.23"),
        worker=("python", "-m", "bench.peers.sides.pgq"),
        rate=14_000,
        unfinished="SELECT (SELECT max(id) FROM pgqueuer) IS NOT NULL",
        configured="batches of 100 (10 as installed); asyncpg; uvloop; async jobs",
    ),
    Peer(
        name="oban",
        package="oban",
        side="oban_jobs",
        requirements=("oban>=0.7",),
        worker=(
            "oban",
            "start",
            "--dsn=postgresql://",
            "--queues=default:100",
            "--cron-modules=bench.peers.sides.oban_jobs",
            "--log-level=WARNING",
        ),
        rate=6_000,
        unfinished=_any_left(
            "oban_jobs", "state", ("available", "executing", "scheduled", "retryable")
        ),
        configured="limit of 100 (10 in its quick start); async jobs; enqueue_many",
    ),
    Peer(
        name="chancy",
        package="chancy",
        side="chancy_app",
        requirements=("chancy[cli]>=0.26", "psycopg[binary,pool]>=3.2.4"),
        worker=(
            "chancy",
            "--app=bench.peers.sides.chancy_app.chancy",
            "worker",
            "start",
        ),
        rate=1_000,
        unfinished=_any_left(
            "chancy_jobs", "state", ("pending", "running", "retrying")
        ),
        configured="async executor, 100 jobs at a time; eager polling; push_many",
    ),
    Peer(
        name="procrastinate",
        package="procrastinate",
        side="procrastinate_app",
        requirements=("procrastinate>=3.10", "psycopg[binary,pool]>=3.2.4"),
        worker=(
            "procrastinate",
            "--app=bench.peers.sides.procrastinate_app.app",
            "--log-level=warning",
            "worker",
            "--concurrency=10",
        ),
        rate=500,
        unfinished=_any_left("procrastinate_jobs", "status", ("todo", "doing")),
        configured="10 async jobs at a time (1 as installed); batch_defer",
    ),
    Peer(
        name="django-task-psql",
        package="django-task-psql",
        side="tasks_api",
        requirements=("django-task-psql>=0.2.1", *_DJANGO),
        worker=("python", "-m", "django", "runworker", "--concurrency=4"),
        rate=650,
        unfinished=_any_left("task_psql_task", "status", ("READY", "RUNNING")),
        environment=_django(
            ["django_task_psql"],
            "django_task_psql.backend.PostgresBackend",
            PEER_DATABASE={
                "CONN_MAX_AGE": 0,
                "OPTIONS": {"pool": {"min_size": 2, "max_size": 10}},
            },
        ),
        configured="4 threads (1 as installed); Django's connection pool",
    ),
    Peer(
        name="django-ox",
        package="django-ox",
        side="ox",
        requirements=("django-ox>=1.9", *_DJANGO),
        worker=("python", "-m", "django", "ox_worker", "--processes=2"),
        copies=1,
        rate=550,
        unfinished=_any_left("django_ox_oxtask", "status", ("READY", "RUNNING")),
        environment=_django(["django_ox"], "django_ox.backend.OxBackend"),
        configured=f"{_OPEN}; its own enqueue_many",
    ),
    Peer(
        name="django-tasks-db",
        package="django-tasks-db",
        side="tasks_api",
        requirements=("django-tasks-db>=0.13", *_DJANGO),
        worker=("python", "-m", "django", "db_worker", "--no-startup-delay"),
        rate=125,
        unfinished=_any_left(
            "django_tasks_database_dbtaskresult", "status", ("READY", "RUNNING")
        ),
        environment=_django(["django_tasks_db"], "django_tasks_db.DatabaseBackend"),
        configured=_OPEN,
    ),
    Peer(
        name=CELERY,
        package="celery",
        side="celery_app",
        requirements=("celery[redis]>=5.6",),
        worker=(
            "celery",
            "--app=bench.peers.sides.celery_app",
            "worker",
            "--pool=prefork",
            "--concurrency=2",
            "--loglevel=WARNING",
        ),
        copies=1,
        rate=1_000,
        configured="results ignored; prefetch multiplier of 64 (4 as installed)",
    ),
)
