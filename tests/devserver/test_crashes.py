"""Starting after a crash: what is left on disk names nobody."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgqueue_django import devserver
from pgqueue_django.devserver import pidfile
from tests.devserver import servers
from tests.devserver.servers import Caller


@pytest.fixture
def bystander(ordinary: Caller) -> Iterator[int]:
    """Return the pid of a living process of the ordinary user."""
    switch = {} if ordinary.uid is None else {"user": ordinary.uid}
    with subprocess.Popen(["sleep", "60"], **switch) as process:  # type: ignore[call-overload]
        yield process.pid
        assert process.poll() is None, "somebody hurt the bystander"
        process.kill()


def leave_pid_file(home: Path, content: str) -> None:
    """Write what a killed server may have left, with its owner."""
    path = servers.pid_file(home)
    path.write_text(content)
    owner = (home / "data").stat()
    os.chown(path, owner.st_uid, owner.st_gid)


def assert_starts(caller: Caller, home: Path) -> None:
    assert "answer" in caller.call("ensure_running", home)
    assert servers.postmasters_in(home) == [servers.postmaster(home)]


def test_killed_server_starts_again_with_what_was_committed(home: Path) -> None:
    """DEV-03."""
    url = devserver.ensure_running(home)
    servers.execute(url, "CREATE TABLE kept (id int)", "INSERT INTO kept VALUES (7)")
    killed = servers.kill(home)
    assert servers.fetch(devserver.ensure_running(home), "SELECT id FROM kept") == 7
    assert servers.postmaster(home) != killed


def test_server_starts_while_the_old_postmaster_is_just_killed(home: Path) -> None:
    """DEV-03: its children still live, and hold the lock, for a moment."""
    devserver.ensure_running(home)
    os.kill(servers.postmaster(home), signal.SIGKILL)
    url = devserver.ensure_running(home)
    assert servers.fetch(url, "SELECT 1") == 1
    assert servers.postmasters_in(home) == [servers.postmaster(home)]


@pytest.mark.parametrize("content", ["", "garbage", "1\n"])
def test_damaged_pid_file_without_a_server_does_not_matter(
    ordinary: Caller, ordinary_home: Path, content: str
) -> None:
    """DEV-03."""
    leave_pid_file(ordinary_home, content)
    assert_starts(ordinary, ordinary_home)


@pytest.mark.parametrize(
    "content", [b"-5\n", b"9" * 5000, "\N{SNOWMAN}".encode(), b"\xff", b"\n" * 9]
)
def test_damaged_pid_file_names_nobody(content: bytes) -> None:
    """DEV-03."""
    assert pidfile.parse(content) is None


@pytest.mark.parametrize("content", [b"5", b"5\n/data\n1\n5432\n", b"5\n\n\nx\n/\n"])
def test_truncated_pid_file_names_no_socket(content: bytes) -> None:
    """DEV-04."""
    postmaster = pidfile.parse(content)
    assert postmaster
    assert (postmaster.pid, postmaster.socket, postmaster.is_ready) == (5, None, False)


def test_pid_file_that_names_a_living_bystander_does_not_matter(
    ordinary: Caller, ordinary_home: Path, bystander: int
) -> None:
    """DEV-03: same user, so that PostgreSQL alone would refuse to start."""
    rest = f"{ordinary_home / 'data'}\n1700000000\n5432\n/tmp\n\n  1  1\nready   \n"
    leave_pid_file(ordinary_home, f"{bystander}\n{rest}")
    assert_starts(ordinary, ordinary_home)


def test_pid_file_that_names_the_caller_does_not_matter(home: Path) -> None:
    """DEV-03: our own pid, in a new container."""
    leave_pid_file(
        home, f"{os.getpid()}\n{home / 'data'}\n1\n5432\n/tmp\n\n 1 1\nready"
    )
    url = devserver.ensure_running(home)
    assert servers.fetch(url, "SELECT 1") == 1


def test_stop_hurts_no_bystander_that_the_pid_file_names(
    ordinary: Caller, ordinary_home: Path, bystander: int
) -> None:
    """DEV-03."""
    leave_pid_file(ordinary_home, f"{bystander}\n")
    assert ordinary.call("stop", ordinary_home) == {"answer": False}


def test_unreadable_pid_file_without_a_server_does_not_matter(
    ordinary: Caller, ordinary_home: Path
) -> None:
    """DEV-04."""
    leave_pid_file(ordinary_home, "4321\n")
    servers.pid_file(ordinary_home).chmod(0)
    assert_starts(ordinary, ordinary_home)


def test_socket_lock_that_names_a_living_bystander_does_not_matter(
    ordinary: Caller, ordinary_home: Path, bystander: int
) -> None:
    """DEV-03: the second file by which PostgreSQL finds its own kind."""
    ordinary.call("ensure_running", ordinary_home)
    directory = Path(servers.pid_file(ordinary_home).read_text().split("\n")[4])
    servers.kill(ordinary_home)
    lock = directory / ".s.PGSQL.5432.lock"
    lock.write_text(
        lock.read_text().replace(lock.read_text().split("\n")[0], str(bystander))
    )
    assert_starts(ordinary, ordinary_home)
