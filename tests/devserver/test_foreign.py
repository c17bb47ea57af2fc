"""Servers of others, of copies, and of those who start one by hand."""

import subprocess
from pathlib import Path

import pytest

from pgqueue_django import devserver
from pgqueue_django.devserver import accounts, binaries, paths
from tests.devserver import servers
from tests.devserver.conftest import NewHome
from tests.devserver.servers import Caller


def start_by_hand(home: Path, socket_directory: Path, port: int) -> None:
    """Start a server as its owner would, without this package's lock."""
    account = accounts.for_server(paths.find(home))
    socket_directory.mkdir()
    account.give(socket_directory)
    pg_ctl = binaries.installed() / "pg_ctl"
    options = f"-k {socket_directory} -p {port} -c listen_addresses=''"
    subprocess.run(
        [pg_ctl, "start", "-w", "-s", "-D", home / "data", "-o", options],
        check=True,
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **account.popen_options(),
    )


def data_directory(url: str) -> str:
    return str(servers.fetch(url, "SHOW data_directory"))


def test_four_checkouts_have_four_servers(new_home: NewHome, myself: Caller) -> None:
    """DEV-11: all on the same port number."""
    homes = [new_home(f"checkout-{number}") for number in range(4)]
    calls = [myself.start("ensure_running", home) for home in homes]
    urls = [servers.finish(call)["answer"] for call in calls]
    assert [data_directory(url) for url in urls] == [str(h / "data") for h in homes]


def test_copy_of_a_running_directory_gets_a_server_of_its_own(
    home: Path, fresh_home: NewHome
) -> None:
    """DEV-11: the copied pid file names the original's server."""
    original = devserver.ensure_running(home)
    copy = fresh_home("copy")
    subprocess.run(["cp", "-a", home, copy], check=True)
    assert not devserver.status(copy).running
    assert data_directory(devserver.ensure_running(copy)) == str(copy / "data")
    assert devserver.ensure_running(home) == original


def test_moved_directory_keeps_its_running_server(
    home: Path, fresh_home: NewHome
) -> None:
    """DEV-11."""
    url = devserver.ensure_running(home)
    moved = fresh_home("moved")
    home.rename(moved)
    assert devserver.ensure_running(moved) == url


def test_removed_directory_is_made_anew_beside_its_old_server(
    home: Path, myself: Caller
) -> None:
    """DEV-11: the old one keeps its socket until it misses its files."""
    url = devserver.ensure_running(home)
    old = servers.postmaster(home)
    trash = home.with_name("trash")
    home.rename(trash)
    try:
        assert devserver.ensure_running(home) != url
        assert servers.postmaster(home) != old
    finally:
        devserver.stop(trash)
    assert servers.postmasters_in(trash) == []


def test_server_started_by_hand_is_used(home: Path, place: Path) -> None:
    """DEV-11: it has no lock, but a pid file and a working directory."""
    start_by_hand(home, place / "socket", 6543)
    pid = servers.postmaster(home)
    assert data_directory(devserver.ensure_running(home)) == str(home / "data")
    assert servers.postmasters_in(home) == [pid]
    assert devserver.stop(home)


def test_answer_of_another_server_is_none(new_home: NewHome, place: Path) -> None:
    """DEV-11: the pid file leads to a socket where somebody else listens."""
    ours, foreign = new_home("ours"), new_home("foreign")
    devserver.ensure_running(ours)
    start_by_hand(foreign, place / "socket", 5432)
    pid_file = servers.pid_file(ours)
    content = pid_file.read_text()
    lines = content.split("\n")
    pid_file.write_text("\n".join([*lines[:4], str(place / "socket"), *lines[5:]]))
    with pytest.raises(devserver.DevServerError, match="another server"):
        devserver.ensure_running(ours, timeout=1)
    pid_file.write_text(content)


def test_second_server_is_not_started_when_lock_and_pid_file_are_lost(
    home: Path,
) -> None:
    """DEV-04: PostgreSQL's shared memory is the last guard."""
    devserver.ensure_running(home)
    pid = servers.postmaster(home)
    paths_to_lose = (home / "lock", servers.pid_file(home))
    for path in paths_to_lose:
        path.rename(path.with_name("lost"))
    with pytest.raises(devserver.DevServerError, match="shared memory"):
        devserver.ensure_running(home)
    assert servers.postmasters_in(home) == [pid]
    for path in paths_to_lose:
        path.with_name("lost").replace(path)
