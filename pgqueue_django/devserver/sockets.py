"""The short private directory that a server's socket lies in.

A socket's path has at most 107 bytes (103 on macOS), so it cannot lie in a project. The
name is made from the home's path, so that URLs stay the same when a server restarts.
"""

import hashlib
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pgqueue_django.devserver.accounts import Account
from pgqueue_django.devserver.errors import DevServerError
from pgqueue_django.devserver.paths import Home

PORT = 5432
USER = "postgres"
DATABASE = "pgqueue"
_PREFIX = "pgqueue-"
_MAX_BYTES = 80  # of the directory; leaves room for the file's name
_SOCKET_NAME = f".s.PGSQL.{PORT}"


@dataclass(frozen=True, kw_only=True)
class Socket:
    """Where a server listens; the port is only a part of the socket's name."""

    directory: Path
    port: int = PORT

    def url(self, database: str = DATABASE) -> str:
        """Return a URL for libpq; it names the port, or PGPORT would have a say."""
        host = quote(str(self.directory), safe="")
        return f"postgresql://{USER}@{host}:{self.port}/{database}"


def expected(home: Home, account: Account) -> Socket:
    """Return where the server will listen unless others have taken the name."""
    return Socket(directory=next(_candidates(home, account)))


def prepare_directory(home: Home, account: Account) -> Path:
    """Make the directory, of mode 0700, and clear what a killed server left in it.

    Concurrency: The caller holds the home's lock.

    Raises:
        DevServerError: Every candidate belongs to others, or has a server listening.
    """
    for directory in _candidates(home, account):
        with suppress(OSError):
            if _claim(directory, account) and not _is_listening(directory):
                _clear(directory)
                return directory
    names = ", ".join(map(str, _candidates(home, account)))
    raise DevServerError(f"cannot make a private directory for the socket: {names}")


def remove_directory(directory: Path) -> None:
    """Remove a stopped server's directory if it is one of ours, and empty."""
    with suppress(OSError):
        if directory.name.startswith(_PREFIX):
            directory.rmdir()


def _candidates(home: Home, account: Account) -> Iterator[Path]:
    digest = hashlib.sha256(os.fsencode(home.root)).hexdigest()[:12]
    for base in ("/tmp", "/var/tmp", tempfile.gettempdir()):  # noqa: S108 - checked
        for suffix in ("", "-2", "-3"):
            path = f"{base}/{_PREFIX}{account.uid}-{digest}{suffix}"
            # dj-database-url makes host names lower case.
            if len(os.fsencode(path)) <= _MAX_BYTES and path == path.lower():
                yield Path(path)


def _claim(directory: Path, account: Account) -> bool:
    """Make a directory ours, or tell that it is somebody else's."""
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in _owners(account):
        return False
    directory.chmod(0o700)
    account.give(directory)
    return True


def _owners(account: Account) -> set[int]:
    return {account.uid, os.geteuid()}


def _is_listening(directory: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        try:
            client.connect(str(directory / _SOCKET_NAME))
        except BlockingIOError:  # its backlog is full
            return True
        except OSError:
            return False
        return True


def _clear(directory: Path) -> None:
    for name in (_SOCKET_NAME, f"{_SOCKET_NAME}.lock"):
        (directory / name).unlink(missing_ok=True)
