"""GET /healthz: an answer in bounded time, whatever the database does."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event, active_count
from time import monotonic
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from pgqueue_django.api import health as view
from pgqueue_django.stats.health import (
    REUSE_SECONDS,
    SILENT,
    UNREACHABLE,
    Health,
    HealthCheck,
)
from tests.waiting import wait_until


@pytest.fixture
def check(monkeypatch):
    """Replace the check that all requests share by one that nobody has asked yet."""
    check = HealthCheck()
    monkeypatch.setattr(view, "check_health", check)
    return check


@pytest.fixture
def elsewhere():
    """Return a function that lets the database be at another place."""
    with pytest.MonkeyPatch.context() as patch:

        def moved(**parameters):
            given = connections["default"].settings_dict
            for name, value in parameters.items():
                patch.setitem(given, name, value)

        yield moved


@pytest.fixture
def frozen():
    """A server that takes connections and never says a word."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=200)) as server:
        yield server


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def timed(function, *args):
    began = monotonic()
    return function(*args), monotonic() - began


@pytest.mark.django_db
def test_answers_ok_to_anybody(check):
    response = Client().get("/api/healthz")
    assert response.status_code == 200
    assert response.json() == {"status": "ok"}
    assert "no-store" in response.headers["Cache-Control"]


@pytest.mark.django_db(transaction=True)
def test_says_when_the_job_table_is_missing(check, elsewhere):
    elsewhere(NAME="postgres")
    response = Client().get("/api/healthz")
    assert response.status_code == 503
    assert response.json()["reason"] == "the job table is missing: run migrate"


def test_says_when_connections_are_refused(check, elsewhere):
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    elsewhere(HOST="127.0.0.1", PORT=port)
    response, seconds = timed(Client().get, "/api/healthz")
    assert response.status_code == 503
    assert response.json()["status"] == "unavailable"
    assert seconds < 2


def test_a_frozen_database_is_given_up_in_time_without_piling_up(elsewhere, frozen):
    port = frozen.getsockname()[1]
    elsewhere(HOST="127.0.0.1", PORT=port)
    check = HealthCheck(deadline=0.4)
    before, files = active_count(), open_files()
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: timed(check), range(100)))
    assert {answer for answer, _ in answers} == {SILENT}
    assert max(seconds for _, seconds in answers) < 1.5
    assert active_count() <= before + 1
    wait_until(lambda: active_count() <= before)
    assert open_files() <= files


def test_a_name_that_takes_for_ever_to_look_up_is_given_up_in_time(monkeypatch):
    check, found = HealthCheck(deadline=0.2), Event()
    with monkeypatch.context() as patch:
        patch.setattr(
            "pgqueue_django.stats.health.table_is_there", lambda _: found.wait(30)
        )
        for longest in (1, 0.1):
            answer, seconds = timed(check)
            assert answer == SILENT
            assert seconds < longest
        threads = active_count()
        check()
        assert active_count() == threads
        found.set()


@pytest.mark.django_db(transaction=True)
def test_an_error_of_the_server_is_told(monkeypatch):
    monkeypatch.setattr(
        "pgqueue_django.stats.health.table_is_there",
        lambda probe: probe.is_true("SELECT 1 / 0 = 1"),
    )
    assert HealthCheck()() == UNREACHABLE


@pytest.mark.django_db(transaction=True)
def test_a_hung_question_is_given_up_and_the_next_one_is_answered(monkeypatch):
    check = HealthCheck(deadline=0.3)
    asked = "pgqueue_django.stats.health.table_is_there"
    slow = "SELECT pg_sleep(2) IS NULL"
    with monkeypatch.context() as patch:
        patch.setattr(asked, lambda probe: probe.is_true(slow))
        answer, seconds = timed(check)
    assert answer == SILENT
    assert seconds < 1
    wait_until(lambda: check() == Health(ok=True))


@pytest.mark.django_db
def test_callers_in_quick_succession_share_an_answer():
    check = HealthCheck()
    with ThreadPoolExecutor(8) as pool:
        questions = {
            id(question)
            for question in pool.map(lambda _: (check(), check._question)[1], range(8))
        }
    assert REUSE_SECONDS > 0
    assert len(questions) == 1


def test_takes_reading_methods_only(check):
    assert Client().post("/api/healthz").status_code == 405


def test_is_left_out_of_the_projects_transactions():
    healthz: Any = view.healthz
    assert healthz._non_atomic_requests >= {"default"}
    assert healthz.login_required is False
