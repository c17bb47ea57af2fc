"""Servers that take no writes: a standby, and one that became read-only (25006)."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import InternalError, connections
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.transaction import atomic

from bench.clusters import Pair
from pgqueue_django import devserver
from pgqueue_django.db import DjangoSession
from pgqueue_django.models import Job
from tests import factories
from tests.devserver.conftest import make_place
from tests.waiting import wait_until
from tests.worker import handlers
from tests.worker.conftest import WAIT, pause
from tests.worker.servers import migrate, settings_of


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Return a primary and its synchronous standby."""
    place = make_place()
    servers = Pair(place)
    try:
        yield servers
    finally:
        servers.stop()
        shutil.rmtree(place)


@pytest.fixture
def ask() -> Callable[..., list[Any]]:
    """Return a function that asks a server something, past everybody's settings."""

    def rows(url: str, *statements: str) -> list[Any]:
        options = "-c default_transaction_read_only=off"
        with psycopg.connect(url, autocommit=True, options=options) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    return rows


def both(pair: Pair) -> list[dict[str, Any]]:
    """Return the settings of the primary, and of the standby."""
    homes = (pair.primary, pair.standby)
    return [settings_of(devserver.ensure_running(home)) for home in homes]


def set_read_only(ask, url: str, value: str) -> None:
    """Let open sessions have it too, as no setting of a database or a role would."""
    change = f"ALTER SYSTEM SET default_transaction_read_only = {value}"
    ask(url, change, "SELECT pg_reload_conf()")


def until_refused(write: Callable[[Any], object], spec: Any) -> None:
    wait_until(lambda: write(spec) and None, WAIT)


def jobs(ask, url: str) -> list[Any]:
    found: list[Any] = ask(url, "SELECT state, attempts FROM pgqueue_job ORDER BY id")
    return found


def writers(ask, url: str) -> set[int]:
    """Return the backends of the parts that write all the time."""
    asked = (
        "SELECT pid FROM pg_stat_activity WHERE application_name"
        " SIMILAR TO 'pgqueue (claimer|completer) %'"
    )
    return {row[0] for row in ask(url, asked)}


@pytest.fixture
def server(private_server) -> dict[str, Any]:
    """Return the settings of a server of this test alone, with the tables."""
    settings_dict = settings_of(private_server("start"))
    migrate(settings_dict)
    return settings_dict


@pytest.fixture
def url(server, private_server) -> str:
    """Return its URL."""
    return str(private_server("start"))


@pytest.fixture
def producer(server, alias) -> Iterator[Any]:
    """Return what enqueues there on a connection of Django's."""
    # The one alias beside its own that Django lets a test connect to.
    yield Job.objects.on(DjangoSession(alias(NO_DB_ALIAS, **server)))
    connections[NO_DB_ALIAS].close()


def test_a_producer_leaves_a_server_that_became_read_only(producer, url, ask):
    spec = factories.spec()
    producer.enqueue(spec)
    set_read_only(ask, url, "on")

    for write in (producer.enqueue, lambda spec: producer.enqueue_many([spec])):
        # The server's own error, as soon as the session knows the setting.
        with pytest.raises(InternalError) as refused:
            until_refused(write, spec)
        cause = refused.value.__cause__
        assert isinstance(cause, psycopg.errors.ReadOnlySqlTransaction)
        assert connections[NO_DB_ALIAS].connection is None

    set_read_only(ask, url, "off")
    assert producer.enqueue(spec)


def test_a_callers_own_transaction_is_left_to_him(producer, url, ask):
    def write(spec: Any) -> None:
        with atomic(using=NO_DB_ALIAS):
            try:
                producer.enqueue(spec)
            finally:
                assert connections[NO_DB_ALIAS].connection is not None

    set_read_only(ask, url, "on")

    with pytest.raises(InternalError, match="read-only"):
        until_refused(write, factories.spec())


def test_a_worker_leaves_a_server_that_became_read_only(
    start_process, server, producer, url, ask, held_by, let_go
):
    process = start_process("--lease=60", **server)
    producer.enqueue(factories.spec(handlers.hold.task_name, args=[str(let_go.folder)]))
    assert held_by() == process.pid
    producer.enqueue(factories.spec(handlers.noop.task_name))
    wait_until(lambda: jobs(ask, url)[-1] == ("succeeded", 1), WAIT)
    before = writers(ask, url)
    assert len(before) == 2

    set_read_only(ask, url, "on")
    # What it has done waits for a server that takes it.
    let_go()
    process.wait_for("trying again")
    wait_until(lambda: not before & writers(ask, url), WAIT)
    lines = process.log.count("trying again")
    pause(2.0)
    assert process.log.count("trying again") - lines <= 3
    assert jobs(ask, url)[0] == ("running", 1)
    set_read_only(ask, url, "off")

    wait_until(lambda: jobs(ask, url)[0] == ("succeeded", 1), WAIT)
    producer.enqueue(factories.spec(handlers.where.task_name))
    wait_until(lambda: jobs(ask, url)[-1] == ("succeeded", 1), WAIT)
    assert process.stop() == 0
    assert "lease lost" not in process.log


def test_of_two_hosts_a_worker_takes_the_one_that_takes_writes(
    start_process, pair, alias, ask
):
    pair.start()
    primary, standby = both(pair)
    migrate(primary)
    producer = Job.objects.on(DjangoSession(alias(NO_DB_ALIAS, **primary)))
    producer.enqueue(factories.spec(handlers.noop.task_name))
    connections[NO_DB_ALIAS].close()

    # The standby is the first, and nothing is said of who is wanted.
    hosts = f"{standby['HOST']},{primary['HOST']}"
    ports = f"{standby['PORT']},{primary['PORT']}"
    process = start_process(
        "--drain", until=None, **{**primary, "HOST": hosts, "PORT": ports}
    )

    assert process.wait() == 0
    assert "trying again" not in process.log
    url = devserver.ensure_running(pair.primary)
    assert jobs(ask, url) == [("succeeded", 1)]


def test_a_worker_at_a_standby_waits_until_it_is_promoted(
    start_process, pair, alias, ask
):
    pair.start()
    primary, standby = both(pair)
    migrate(primary)
    producer = Job.objects.on(DjangoSession(alias(NO_DB_ALIAS, **primary)))
    process = start_process("--lease=5", until="trying again", **standby)
    producer.enqueue(factories.spec(handlers.noop.task_name))
    connections[NO_DB_ALIAS].close()
    pause(2.0)
    assert "read-only" in process.log
    assert process.log.count("trying again") <= 4

    pair.kill_primary()
    pair.promote()

    url = devserver.ensure_running(pair.primary)
    wait_until(lambda: jobs(ask, url) == [("succeeded", 1)], WAIT)
    assert process.stop() == 0
