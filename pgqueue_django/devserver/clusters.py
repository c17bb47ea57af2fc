"""Make PostgreSQL's own directory, and start the server on it."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pgqueue_django.devserver import binaries, pidfile, processes, sockets
from pgqueue_django.devserver.accounts import Account
from pgqueue_django.devserver.errors import DevServerError
from pgqueue_django.devserver.paths import Home

# Everything that initdb would otherwise take from the caller's environment. The
# settings go to postgresql.conf, where they can be changed.
_INITDB_OPTIONS = (
    f"--username={sockets.USER}",
    "--auth-local=trust",  # the socket's directory lets nobody else in
    "--auth-host=reject",
    "--encoding=UTF8",
    "--locale=C",  # the one that every libc has
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--set=listen_addresses=",
    "--set=max_connections=200",
)
_LOG_TAIL_BYTES = 8192


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What is known of a server that was launched and may still fail."""

    log_size: int  # bytes, before it said anything
    socket_dir: Path


def launch(home: Home, account: Account, *, lock: int, timeout: float) -> Launch:
    """Start a server, after initdb if need be, and do not wait until it answers.

    Args:
        home: Prepared, and owned by the caller.
        account: Whom the server runs as.
        lock: The descriptor that owns the home; the server keeps it open.
        timeout: Seconds for initdb.

    Raises:
        DevServerError: initdb failed, or something needed cannot be made.
    """
    bin_dir = binaries.usable_by(account)
    if not (home.data / "PG_VERSION").exists():
        initialise(home, account, lock=lock, timeout=timeout)
    pidfile.remove_stale(home)
    directory = sockets.prepare_directory(home, account)
    log_size = home.log.stat().st_size if home.log.exists() else 0
    processes.leave_running(
        [bin_dir / "postgres", "-D", home.data, "-k", directory, "-p", sockets.PORT],
        account=account,
        log=home.log,
        lock=lock,
    )
    return Launch(log_size=log_size, socket_dir=directory)


def initialise(home: Home, account: Account, *, lock: int, timeout: float) -> None:
    """Run initdb beside the data directory, which appears when it is whole.

    initdb keeps the lock too: where its starter is killed, it goes on alone.
    """
    account.require_passwd_entry()
    shutil.rmtree(home.partial, ignore_errors=True)  # of a run that was killed
    home.partial.mkdir(mode=0o700)
    account.give(home.partial)
    initdb = binaries.usable_by(account) / "initdb"
    command = [initdb, "-D", home.partial, *_INITDB_OPTIONS]
    try:
        done = processes.run(command, account=account, lock=lock, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise DevServerError(
            f"initdb took over {timeout:.0f} s in {home.root}"
        ) from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace")
        raise DevServerError(f"initdb failed in {home.root}:\n{said.strip()}")
    home.partial.rename(home.data)


def explain_failure(home: Home, failed: Launch) -> DevServerError:
    """Tidy up after a launched server that is gone, and say what it said."""
    sockets.remove_directory(failed.socket_dir)
    said = _log_since(home, failed.log_size)
    return DevServerError(
        f"PostgreSQL did not start in {home.root}; its log {home.log} says:\n{said}"
    )


def _log_since(home: Home, size: int) -> str:
    """Return the end of what the log got since it had that size."""
    with home.log.open("rb") as log:
        end = log.seek(0, 2)
        log.seek(max(size, end - _LOG_TAIL_BYTES))
        return log.read().decode(errors="replace").strip()
