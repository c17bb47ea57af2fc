"""``manage.py pgqueue_devserver``."""

import io
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from pgqueue_django import devserver
from pgqueue_django.management.commands.pgqueue_devserver import Command
from tests.devserver import servers
from tests.devserver.conftest import Running


def run(action: str, data_dir: Path) -> tuple[str, str]:
    """Run the command; returns what it wrote to stdout and stderr."""
    output, errors = io.StringIO(), io.StringIO()
    call_command(
        Command(stdout=output, stderr=errors, no_color=True),
        action,
        data_dir=str(data_dir),
    )
    return output.getvalue(), errors.getvalue()


def test_start_prints_the_url_alone_on_stdout(home: Path) -> None:
    output, errors = run("start", home)
    assert output == f"{devserver.ensure_running(home)}\n"
    assert errors == "started\n"


def test_start_says_that_the_server_was_running(running: Running) -> None:
    home, url = running
    assert run("start", home) == (f"{url}\n", "already running\n")


def test_stop_says_what_it_did(home: Path) -> None:
    devserver.ensure_running(home)
    assert run("stop", home)[0] == "stopped\n"
    assert run("stop", home)[0] == "not running\n"


def test_status_describes_a_running_server(running: Running) -> None:
    home, url = running
    lines = run("status", home)[0].splitlines()
    assert lines[0] == "running"
    assert f"pid: {servers.postmaster(home)}" in lines
    assert f"url: {url}" in lines


def test_status_exits_with_3_when_nothing_runs(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        call_command(Command(), "status", data_dir=str(place / "home"))
    assert stopped.value.code == 3
    assert capsys.readouterr().out.startswith("not running\n")


def test_url_prints_the_url_of_a_running_server(running: Running) -> None:
    home, url = running
    assert run("url", home)[0] == f"{url}\n"


def test_url_starts_nothing_and_exits_with_3(place: Path) -> None:
    with pytest.raises(CommandError, match="no server runs") as stopped:
        run("url", place / "home")
    assert stopped.value.returncode == 3
    assert list(place.iterdir()) == []


def test_errors_are_command_errors(place: Path) -> None:
    with pytest.raises(CommandError, match="line break"):
        run("start", place / "two\nlines")
