"""Directories with long or odd names."""

import os
import stat
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from pgqueue_django import devserver
from tests.devserver import servers
from tests.devserver.conftest import NewHome
from tests.devserver.servers import Caller


def socket_directory(url: str) -> Path:
    return Path(unquote(urlsplit(url).hostname or ""))


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("length", [60, 90, 110, 200])
def test_long_path_works_with_a_long_tmpdir(
    new_home: NewHome, place: Path, length: int
) -> None:
    """DEV-05."""
    project = place / ("x" * (length - len(os.fsencode(place)) - 1))
    project.mkdir()
    home = new_home(f"{project.name}/.pgdata")
    caller = Caller(
        python=sys.executable,
        environment={"TMPDIR": str(project)},
    )
    assert len(os.fsencode(project)) == length
    url = caller.call("ensure_running", home)["answer"]
    assert servers.fetch(url, "SELECT 1") == 1


@pytest.mark.parametrize(
    "name",
    ['it\'s two "words"', "$HOME `id` \\", "żółć 🎉 50%2F#?@:&"],
)
def test_odd_name_works(fresh_home: NewHome, name: str) -> None:
    """DEV-05: from initdb on."""
    url = devserver.ensure_running(fresh_home(name))
    assert servers.fetch(url, "SELECT 1") == 1


def test_symlink_and_its_target_share_one_server(home: Path, place: Path) -> None:
    """DEV-05."""
    (place / "link").symlink_to(place)
    url = devserver.ensure_running(place / "link" / home.name)
    assert devserver.ensure_running(home) == url


def test_line_break_is_refused(place: Path) -> None:
    """DEV-05."""
    with pytest.raises(devserver.DevServerError, match="line break"):
        devserver.ensure_running(place / "two\nlines")


def test_nobody_else_can_look_at_data_or_socket(fresh_home: NewHome) -> None:
    """DEV-05."""
    home = fresh_home()
    url = devserver.ensure_running(home)
    assert mode_of(socket_directory(url)) == 0o700
    assert mode_of(home / "data") == 0o700
    assert mode_of(home / "server.log") == 0o600
    assert not mode_of(home) & 0o066  # root's may be passed through


def test_directory_is_kept_out_of_git(fresh_home: NewHome) -> None:
    home = fresh_home()
    devserver.ensure_running(home)
    assert (home / ".gitignore").read_text() == "*\n"


def test_taken_socket_directory_is_passed_by(home: Path, place: Path) -> None:
    """DEV-11: somebody has put a link where the socket's directory would be."""
    expected = socket_directory(devserver.ensure_running(home))
    devserver.stop(home)
    expected.symlink_to(place)
    try:
        url = devserver.ensure_running(home)
        assert socket_directory(url) != expected
        assert servers.fetch(url, "SELECT 1") == 1
    finally:
        expected.unlink()


def test_stop_removes_the_socket_directory(home: Path) -> None:
    url = devserver.ensure_running(home)
    devserver.stop(home)
    assert not socket_directory(url).exists()
