"""Starting a server, and sharing it."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg
import pytest

from pgqueue_django import devserver
from tests.devserver import servers
from tests.devserver.conftest import NewHome, Running
from tests.devserver.servers import Caller


def test_first_start_makes_a_server_with_the_database_of_its_url(
    fresh_home: NewHome,
) -> None:
    """DEV-08: the server is UTF-8, durable, and has room for workers."""
    url = devserver.ensure_running(fresh_home())
    assert servers.fetch(url, "SELECT current_database()") == "pgqueue"
    assert servers.fetch(url, "SELECT 'żółć 🎉'") == "żółć 🎉"
    assert servers.fetch(url, "SHOW server_encoding") == "UTF8"
    assert servers.fetch(url, "SHOW max_connections") == "200"
    assert servers.fetch(url, "SHOW fsync") == "on"
    assert servers.fetch(url, "SHOW listen_addresses") == ""


def test_url_means_the_same_to_libpq_and_to_urlsplit(running: Running) -> None:
    _, url = running
    split = urlsplit(url)
    info = psycopg.conninfo.conninfo_to_dict(url)
    assert unquote(split.hostname or "") == info["host"]
    assert str(split.port) == info["port"]
    assert split.path == "/pgqueue"


def test_url_stays_the_same_when_the_server_restarts(home: Path) -> None:
    url = devserver.ensure_running(home)
    devserver.stop(home)
    assert devserver.ensure_running(home) == url


def test_running_server_is_used_again(running: Running) -> None:
    home, url = running
    pid = servers.postmaster(home)
    assert devserver.ensure_running(home) == url
    assert servers.postmaster(home) == pid


def test_eight_processes_at_once_start_one_server(
    fresh_home: NewHome, myself: Caller
) -> None:
    """DEV-12: a fresh directory, so that they compete for initdb too."""
    home = fresh_home()
    calls = [myself.start("ensure_running", home) for _ in range(8)]
    answers = [servers.finish(call) for call in calls]
    assert answers == [{"answer": devserver.ensure_running(home)}] * 8
    assert servers.postmasters_in(home) == [servers.postmaster(home)]


def test_dropped_database_is_made_again(home: Path) -> None:
    url = devserver.ensure_running(home)
    servers.execute(url.replace("/pgqueue", "/postgres"), "DROP DATABASE pgqueue")
    assert servers.fetch(devserver.ensure_running(home), "SELECT 1") == 1


def test_server_outlives_ctrl_c_and_the_end_of_its_starter(home: Path) -> None:
    code = (
        "import sys, threading\n"
        "from pgqueue_django import devserver\n"
        "print(devserver.ensure_running(sys.argv[1]), flush=True)\n"
        "threading.Event().wait()"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", code, str(home)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=servers.child_environment({}),
        process_group=0,
    )
    assert starter.stdout
    url = starter.stdout.readline().strip()
    pid = servers.postmaster(home)
    os.killpg(starter.pid, signal.SIGINT)
    # Also shows that the server does not hold on to its starter's pipes.
    starter.communicate(timeout=60)
    assert os.getsid(pid) != os.getsid(0)
    assert servers.fetch(url, "SELECT 1") == 1
    assert servers.postmaster(home) == pid


def test_killed_starter_leaves_a_directory_that_starts(
    fresh_home: NewHome, myself: Caller
) -> None:
    """DEV-03: the starter dies while initdb is at work, and initdb does not."""
    home = fresh_home()
    starter = myself.start("ensure_running", home)
    servers.wait_until((home / "data.partial" / "PG_VERSION").exists)
    starter.kill()
    starter.communicate(timeout=60)
    url = devserver.ensure_running(home)
    assert servers.fetch(url, "SELECT 1") == 1


def test_failed_start_shows_what_the_server_said(home: Path) -> None:
    """DEV-01."""
    with (home / "data" / "postgresql.conf").open("a") as configuration:
        configuration.write("max_connections = many\n")
    with pytest.raises(devserver.DevServerError, match="max_connections"):
        devserver.ensure_running(home)
    assert not devserver.status(home).running


def test_failed_initdb_shows_what_it_said(
    fresh_home: NewHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DEV-01."""
    home = fresh_home()
    monkeypatch.setattr(
        "pgqueue_django.devserver.clusters._INITDB_OPTIONS", ("--encoding=nonsense",)
    )
    with pytest.raises(devserver.DevServerError, match="nonsense"):
        devserver.ensure_running(home)
    assert not (home / "data").exists()


def test_missing_package_is_named_with_its_extra(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(devserver.DevServerError, match=r"pgqueue_django\[devserver\]"):
        devserver.ensure_running(home)


def test_data_directory_of_another_kind_is_refused(place: Path) -> None:
    (place / "PG_VERSION").write_text("18\n")
    with pytest.raises(devserver.DevServerError, match="name another one"):
        devserver.ensure_running(place)
