"""Stopping a server, and telling how it is."""

from pathlib import Path

import psycopg
import pytest

from pgqueue_django import devserver
from tests.devserver import servers
from tests.devserver.conftest import Running


def test_stop_ends_every_process_and_cuts_off_sessions(home: Path) -> None:
    url = devserver.ensure_running(home)
    with psycopg.connect(url) as connection:
        assert devserver.stop(home)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert servers.postmasters_in(home) == []
    assert not servers.is_owned(home)


def test_stop_of_nothing_says_so_and_makes_nothing(place: Path) -> None:
    assert not devserver.stop(place / "home")
    assert list(place.iterdir()) == []


def test_status_of_nothing_makes_nothing(place: Path) -> None:
    status = devserver.status(place / "home")
    assert status == devserver.Status(
        running=False, pid=None, url=None, data_dir=place / "home", version=None
    )
    assert list(place.iterdir()) == []


def test_status_tells_of_a_running_server(running: Running) -> None:
    home, url = running
    status = devserver.status(home)
    assert status.running
    assert status.pid == servers.postmaster(home)
    assert status.url == url
    assert status.data_dir == home
    assert status.version == servers.fetch(url, "SHOW server_version")
