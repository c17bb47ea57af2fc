"""Whom the server runs as."""

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgqueue_django import devserver
from tests.devserver import servers
from tests.devserver.conftest import NewHome, needs_root
from tests.devserver.servers import NO_PASSWD_ENTRY, NOBODY, Caller


@pytest.fixture
def closed_project() -> Iterator[Path]:
    """Return a project below a directory that only root can enter."""
    closed = Path(tempfile.mkdtemp(dir="/root"))
    project = closed / "project"
    project.mkdir()
    yield project
    devserver.stop(project / ".pgdata", timeout=30)
    target = (project / ".pgdata").resolve()
    if target.parent != project:
        shutil.rmtree(target)
    shutil.rmtree(closed)


def owner_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


@needs_root
def test_server_of_root_runs_as_another_account_that_owns_its_data(home: Path) -> None:
    """DEV-01."""
    devserver.ensure_running(home)
    uid = owner_of(servers.postmaster(home))
    assert uid != 0
    assert (home / "data").stat().st_uid == uid
    assert (home / "lock").stat().st_uid == 0


def test_server_of_an_ordinary_user_runs_as_that_user(
    ordinary: Caller, fresh_home: NewHome
) -> None:
    """DEV-01."""
    home = fresh_home()
    assert "answer" in ordinary.call("ensure_running", home)
    expected = os.geteuid() if ordinary.uid is None else ordinary.uid
    assert owner_of(servers.postmaster(home)) == expected


@needs_root
def test_project_that_only_root_can_enter_works(closed_project: Path) -> None:
    """DEV-01: the data lies elsewhere, behind a link."""
    url = devserver.ensure_running(closed_project / ".pgdata")
    assert (closed_project / ".pgdata").is_symlink()
    assert servers.fetch(url, "SELECT 1") == 1


@needs_root
def test_processes_that_start_in_a_closed_project_at_once_share_one_server(
    closed_project: Path, myself: Caller
) -> None:
    """DEV-12."""
    home = closed_project / ".pgdata"
    calls = [myself.start("ensure_running", home) for _ in range(4)]
    answers = [servers.finish(call) for call in calls]
    assert answers == [{"answer": devserver.ensure_running(home)}] * 4
    assert len(servers.postmasters_in(home)) == 1


@needs_root
def test_programs_that_only_root_can_reach_are_copied(
    home: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DEV-01: a virtual environment in /root, or with a quote in its path."""
    from pgqueue_django.devserver import binaries

    installed = binaries.installed()
    package = installed.parents[1]
    closed = place / 'a "closed" place'
    closed.mkdir(mode=0o700)
    (closed / package.name).symlink_to(package)
    monkeypatch.setattr(
        binaries,
        "installed",
        lambda: closed / installed.relative_to(package.parent),
    )
    monkeypatch.setattr(binaries, "private_base", lambda: place)
    url = devserver.ensure_running(home)
    assert servers.fetch(url, "SELECT 1") == 1
    assert len(list(place.glob("postgres-*"))) == 1


@needs_root
def test_root_runs_a_server_as_the_owner_of_its_data(
    ordinary: Caller, ordinary_home: Path
) -> None:
    """DEV-01: so that the user can go on with it afterwards."""
    url = devserver.ensure_running(ordinary_home)
    assert owner_of(servers.postmaster(ordinary_home)) == NOBODY
    assert ordinary.call("ensure_running", ordinary_home) == {"answer": url}


@needs_root
def test_server_of_root_is_refused_to_an_ordinary_user_in_one_sentence(
    ordinary: Caller, home: Path
) -> None:
    """DEV-01."""
    devserver.ensure_running(home)
    answer = ordinary.call("ensure_running", home)
    assert "belong to another account" in answer["error"]


@needs_root
def test_data_that_belongs_to_root_is_refused(home: Path) -> None:
    """DEV-01."""
    os.chown(home / "data", 0, 0)
    with pytest.raises(devserver.DevServerError, match="chown -R"):
        devserver.ensure_running(home)


@needs_root
def test_root_alone_in_the_world_is_told_to_make_an_account(
    fresh_home: NewHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DEV-01."""
    monkeypatch.setattr(pwd, "getpwall", lambda: [pwd.getpwuid(0)])
    with pytest.raises(devserver.DevServerError, match="useradd"):
        devserver.ensure_running(fresh_home())


@needs_root
def test_uid_without_a_passwd_entry_is_told_what_initdb_needs(
    ordinary: Caller, place: Path
) -> None:
    """DEV-01: docker run -u 12345."""
    os.chown(place, NO_PASSWD_ENTRY, NO_PASSWD_ENTRY)
    stranger = Caller(python=ordinary.python, uid=NO_PASSWD_ENTRY)
    answer = stranger.call("ensure_running", place / "home")
    assert f"passwd entry for uid {NO_PASSWD_ENTRY}" in answer["error"]


@needs_root
def test_uid_without_a_passwd_entry_starts_what_is_initialised(
    ordinary: Caller, new_home: NewHome
) -> None:
    """DEV-01."""
    home = new_home(owner=NO_PASSWD_ENTRY)
    stranger = Caller(python=ordinary.python, uid=NO_PASSWD_ENTRY)
    assert "answer" in stranger.call("ensure_running", home)
    assert owner_of(servers.postmaster(home)) == NO_PASSWD_ENTRY
