"""A server that owns the directory but does not answer is left alone."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgqueue_django import devserver
from tests.devserver import servers
from tests.devserver.servers import Caller


@pytest.fixture
def stopped_pid(home: Path) -> Iterator[int]:
    """Return the postmaster of a home, stopped in its tracks."""
    devserver.ensure_running(home)
    pid = servers.postmaster(home)
    os.kill(pid, signal.SIGSTOP)
    yield pid
    os.kill(pid, signal.SIGCONT)


def test_silent_server_is_refused_after_a_while(home: Path, stopped_pid: int) -> None:
    """DEV-04."""
    with pytest.raises(devserver.DevServerError, match="no answer in 1 s"):
        devserver.ensure_running(home, timeout=1)
    assert servers.postmasters_in(home) == [stopped_pid]


def test_silent_server_is_reported_as_running(home: Path, stopped_pid: int) -> None:
    """DEV-04."""
    status = devserver.status(home)
    assert (status.running, status.pid, status.url) == (True, stopped_pid, None)
    assert "no answer" in status.problem


def test_caller_waits_for_a_server_that_comes_back(
    home: Path, stopped_pid: int, myself: Caller
) -> None:
    """DEV-04."""
    call = myself.start("ensure_running", home, timeout=30)
    with pytest.raises(devserver.DevServerError):  # meanwhile the call has begun
        devserver.ensure_running(home, timeout=1)
    assert call.poll() is None
    os.kill(stopped_pid, signal.SIGCONT)
    assert "answer" in servers.finish(call)
    assert servers.postmaster(home) == stopped_pid


def test_server_that_does_not_end_is_reported_by_pid(
    home: Path, stopped_pid: int
) -> None:
    """DEV-04."""
    with pytest.raises(devserver.DevServerError, match=f"pid {stopped_pid}"):
        devserver.stop(home, timeout=0.5)


def test_damaged_pid_file_of_a_living_server_is_named_and_left_alone(
    home: Path,
) -> None:
    """DEV-04: truncated; put back, since PostgreSQL would end within a minute."""
    devserver.ensure_running(home)
    pid_file = servers.pid_file(home)
    content = pid_file.read_text()
    pid_file.write_text("")
    with pytest.raises(devserver.DevServerError, match=str(pid_file)):
        devserver.ensure_running(home, timeout=1)
    assert pid_file.read_text() == ""
    pid_file.write_text(content)
    assert servers.postmasters_in(home) == [servers.postmaster(home)]


def test_unreadable_pid_file_of_a_living_server_is_named_and_left_alone(
    ordinary: Caller, ordinary_home: Path
) -> None:
    """DEV-04."""
    ordinary.call("ensure_running", ordinary_home)
    pid_file = servers.pid_file(ordinary_home)
    pid_file.chmod(0)
    answer = ordinary.call("ensure_running", ordinary_home, timeout=1)
    assert str(pid_file) in answer["error"]
    pid_file.chmod(0o600)
    assert servers.postmasters_in(ordinary_home) == [servers.postmaster(ordinary_home)]
