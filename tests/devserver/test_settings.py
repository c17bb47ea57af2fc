"""What settings.py gets."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgqueue_django import devserver
from pgqueue_django.devserver import paths
from tests.devserver.conftest import Running


@pytest.fixture(autouse=True)
def _no_choices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("PGQUEUE_DEVSERVER_DIR", raising=False)
    yield
    paths.remember(None)


def test_database_url_of_the_environment_wins(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://elsewhere/db")
    assert devserver.database_url(place / "home") == "postgres://elsewhere/db"
    assert list(place.iterdir()) == []


def test_empty_database_url_counts_as_unset(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "")
    home, url = running
    assert devserver.database_url(home) == url


def test_directory_of_the_environment_wins(
    running: Running, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, url = running
    monkeypatch.setenv("PGQUEUE_DEVSERVER_DIR", str(home))
    assert devserver.database_url(place / "default") == url
    assert list(place.iterdir()) == []


def test_default_directory_lies_in_the_working_directory(
    running: Running, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, url = running
    (place / ".pgdata").symlink_to(home)
    monkeypatch.chdir(place)
    assert devserver.database_url() == url


def test_own_command_starts_nothing_by_loading_the_settings(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["manage.py", "pgqueue_devserver", "status"])
    expected = devserver.database_url(home)
    assert not devserver.status(home).running
    assert devserver.ensure_running(home) == expected


def test_own_command_uses_the_directory_of_the_settings(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["manage.py", "pgqueue_devserver", "status"])
    devserver.database_url(place / "home")
    assert devserver.status().data_dir == place / "home"
