"""Real servers in directories of their own, all gone after each test."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgqueue_django import devserver
from pgqueue_django.devserver import clusters
from tests.devserver import servers
from tests.devserver.servers import Caller

NewHome = Callable[..., Path]
Running = tuple[Path, str]

MEMORY_BYTES = 1 << 30  # some servers of 30 MB, and a copy of the programs

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes accounts")


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a directory that the server's account can reach.

    pytest's own tmp_path is closed to others, so that root's servers would be placed
    elsewhere.
    """
    path = make_place()
    yield path
    shutil.rmtree(path)


def make_place() -> Path:
    """Make a directory that everybody can enter, in memory where there is enough."""
    memory = Path("/dev/shm")
    enough = memory.is_dir() and shutil.disk_usage(memory).free > MEMORY_BYTES
    path = Path(tempfile.mkdtemp(prefix="devserver-", dir=memory if enough else "/tmp"))
    path.chmod(0o755)
    return path.resolve()


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """Return a stopped server's directory, to copy: quicker than initdb."""
    path = make_place()
    with pytest.MonkeyPatch.context() as patch:
        options = (*clusters._INITDB_OPTIONS, "--wal-segsize=1")  # less to copy
        patch.setattr(clusters, "_INITDB_OPTIONS", options)
        devserver.ensure_running(path / "home")
    devserver.stop(path / "home")
    yield path / "home"
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def running(template: Path) -> Iterator[tuple[Path, str]]:
    """Return a directory and the URL of its server, for tests that only look."""
    path = make_place() / "home"
    subprocess.run(["cp", "-a", template, path], check=True)
    yield path, devserver.ensure_running(path)
    devserver.stop(path)
    shutil.rmtree(path.parent)


@pytest.fixture
def fresh_home(place: Path) -> Iterator[NewHome]:
    """Return a maker of directories without a server; what starts there is stopped."""
    made: list[Path] = []

    def make(name: str = "home", parent: Path = place) -> Path:
        made.append(parent / name)
        return parent / name

    yield make
    for path in made:
        devserver.stop(path, timeout=30)
        assert servers.postmasters_in(path) == []


@pytest.fixture
def new_home(fresh_home: NewHome, template: Path) -> NewHome:
    """Return a maker of directories that have been through initdb."""

    def make(name: str = "home", owner: int | None = None) -> Path:
        home = fresh_home(name)
        subprocess.run(["cp", "-a", template, home], check=True)
        if owner is not None:
            subprocess.run(["chown", "-R", f"{owner}:{owner}", home], check=True)
        return home

    return make


@pytest.fixture
def home(new_home: NewHome) -> Path:
    """Return a directory that has been through initdb."""
    return new_home()


@pytest.fixture
def myself() -> Caller:
    """Return the tests' own account, in another process."""
    return Caller(python=sys.executable)


@pytest.fixture
def ordinary(place: Path) -> Caller:
    """Return an ordinary user: nobody, where the tests run as root."""
    if os.geteuid() != 0:
        return Caller(python=sys.executable)
    python = servers.python_for(servers.NOBODY)
    if python is None:
        pytest.skip("the account nobody can run no Python here")
    os.chown(place, servers.NOBODY, servers.NOBODY)
    return Caller(python=python, uid=servers.NOBODY)


@pytest.fixture
def ordinary_home(ordinary: Caller, new_home: NewHome) -> Path:
    """Return an initialised directory that belongs to the ordinary user."""
    return new_home(owner=ordinary.uid)
