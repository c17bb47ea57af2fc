"""Run PostgreSQL's programs: as the right account, in a known environment."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pgqueue_django.devserver.accounts import Account

# The shell ends at once, so that the server is init's child and not the caller's: a
# dead child stays a zombie, which PostgreSQL would take for a living server.
_LEAVE_BEHIND = '"$@" &'


def run(
    command: Sequence[object],
    *,
    timeout: float,
    account: Account | None = None,
    lock: int | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end and keep what it prints.

    Args:
        command: The program and its arguments.
        timeout: Seconds, after which it is killed and TimeoutExpired raised.
        account: None: the caller's own.
        lock: A file descriptor that the program keeps open, also when the caller dies.
    """
    return subprocess.run(
        list(map(str, command)),
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        pass_fds=[] if lock is None else [lock],
        cwd="/",
        env=_environment(),
        umask=0o077,
        **(account.popen_options() if account else {}),
    )


def leave_running(
    command: Sequence[object], *, account: Account, log: Path, lock: int
) -> None:
    """Start a daemon: own session, no terminal, output to the log.

    Args:
        command: The program and its arguments.
        account: Whom it runs as.
        log: Opened by the caller, so that the account needs no right to it.
        lock: A file descriptor that the daemon keeps open while it lives.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    output = os.open(log, flags, 0o600)
    try:
        subprocess.run(
            ["/bin/sh", "-c", _LEAVE_BEHIND, "sh", *map(str, command)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[lock],
            cwd="/",
            env=_environment(),
            umask=0o077,
            start_new_session=True,
            **account.popen_options(),
        )
    finally:
        os.close(output)


def _environment() -> dict[str, str]:
    """Keep out LANG, LC_*, PG* and what else would change how PostgreSQL behaves."""
    kept = {name: os.environ[name] for name in ("PATH", "TZ") if name in os.environ}
    return {"PATH": os.defpath, "LC_ALL": "C"} | kept
