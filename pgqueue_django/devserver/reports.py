"""Tell how the server of a home is."""

from dataclasses import dataclass
from pathlib import Path

from pgqueue_django.devserver import lifecycle, paths, pidfile, probes
from pgqueue_django.devserver.errors import DevServerError, UnansweredError

_PROBE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Status:
    """How a dev server is.

    Attributes:
        running: A server owns the data directory.
        pid: The postmaster's process id; None when not running, or not known.
        url: As ``ensure_running`` returns it; None when the server does not answer.
        data_dir: The data directory's real path.
        version: PostgreSQL's version, ``18.4``; None when the server does not answer.
        problem: Why a running server does not answer; empty when all is well.
    """

    running: bool
    pid: int | None
    url: str | None
    data_dir: Path
    version: str | None
    problem: str = ""


def status(data_dir: Path | str | None = None) -> Status:
    """Look at the server of a data directory; starts and makes nothing.

    Args:
        data_dir: As for ``ensure_running``.

    Returns:
        What is known within about two seconds.

    Raises:
        DevServerError: The directory belongs to somebody else.
    """
    home = paths.find(data_dir)
    try:
        running = lifecycle.is_running(home)
        answer = probes.ask(home, timeout=_PROBE_SECONDS) if running else None
    except UnansweredError as error:
        return _unanswering(home, str(error))
    except OSError as error:
        raise DevServerError(f"cannot look into {home.root}: {error}") from error
    return Status(
        running=running,
        pid=answer.pid if answer else None,
        url=answer.url if answer else None,
        data_dir=home.root,
        version=answer.version if answer else None,
    )


def _unanswering(home: paths.Home, problem: str) -> Status:
    return Status(
        running=True,
        pid=pidfile.serving_pid(home),
        url=None,
        data_dir=home.root,
        version=None,
        problem=problem,
    )
