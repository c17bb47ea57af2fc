"""Where a server keeps its things."""

import os
from dataclasses import dataclass
from pathlib import Path

from pgqueue_django.devserver.errors import DevServerError

DIRECTORY_VARIABLE = "PGQUEUE_DEVSERVER_DIR"
DIRECTORY_NAME = ".pgdata"

_settings_directory: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Home:
    """A data directory, by its real path."""

    root: Path

    @property
    def data(self) -> Path:
        """PostgreSQL's own directory."""
        return self.root / "data"

    @property
    def partial(self) -> Path:
        """Where initdb works, so that ``data`` is whole or absent."""
        return self.root / "data.partial"

    @property
    def pid_file(self) -> Path:
        """Written and removed by PostgreSQL."""
        return self.data / "postmaster.pid"

    @property
    def lock(self) -> Path:
        """Locked by whoever owns the home."""
        return self.root / "lock"

    @property
    def log(self) -> Path:
        """What servers print."""
        return self.root / "server.log"

    @property
    def gitignore(self) -> Path:
        """Keeps the home out of version control."""
        return self.root / ".gitignore"


def find(data_dir: Path | str | None) -> Home:
    """Name a home without touching the disk.

    Args:
        data_dir: None stands for the default directory.

    Raises:
        DevServerError: The path has a line break, which PostgreSQL's own pid file
            cannot hold.
    """
    root = os.path.realpath(data_dir or default_directory())
    if "\n" in root or "\r" in root:
        raise DevServerError(
            f"PostgreSQL cannot use a path with a line break: {root!r}"
        )
    return Home(root=Path(root))


def default_directory() -> Path:
    """Return the environment's directory, else settings.py's, else ``./.pgdata``."""
    named = os.environ.get(DIRECTORY_VARIABLE)
    return Path(named) if named else _settings_directory or Path(DIRECTORY_NAME)


def remember(directory: Path | str | None) -> None:
    """Keep the directory that settings.py asked for, as the command's default."""
    global _settings_directory  # noqa: PLW0603 - one per process, like settings
    _settings_directory = Path(directory).absolute() if directory else None
