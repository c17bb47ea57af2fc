"""Make a data directory where the server's account can reach it."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pgqueue_django.devserver import accounts, paths
from pgqueue_django.devserver.accounts import Account
from pgqueue_django.devserver.errors import DevServerError
from pgqueue_django.devserver.paths import Home


def prepare(data_dir: Path | str | None) -> tuple[Home, Account]:
    """Make sure that a home exists, and choose its server's account.

    Concurrency: Any number of processes may do this at once; they end with one home.

    Raises:
        DevServerError: The directory cannot be made, or the account cannot enter it.
    """
    home = paths.find(data_dir)
    account = accounts.for_server(home)
    if not home.root.is_dir():
        _create(home.root, account)
    # In any case: another process may have placed it elsewhere since the first look.
    home = paths.find(data_dir)
    _require_usable(home, account)
    if not home.gitignore.exists():
        home.gitignore.write_text("*\n", encoding="ascii")
    return home, account


def _create(root: Path, account: Account) -> None:
    root.parent.mkdir(parents=True, exist_ok=True)
    if account.can_reach(root.parent):
        root.mkdir(mode=0o700, exist_ok=True)
    else:
        _link_to_private_directory(root)


def _link_to_private_directory(root: Path) -> None:
    elsewhere = Path(tempfile.mkdtemp(prefix=f"{root.name}-", dir=private_base()))
    try:
        root.symlink_to(elsewhere)
    except FileExistsError:  # another process was first
        elsewhere.rmdir()


def _require_usable(home: Home, account: Account) -> None:
    if (home.root / "PG_VERSION").exists():
        raise DevServerError(
            f"{home.root} is a PostgreSQL data directory itself; name another one, "
            "under which the dev server makes its own"
        )
    _let_through(home.root, account)
    if not account.can_reach(home.root):
        raise DevServerError(
            f"{account.name}, which PostgreSQL runs as, cannot enter {home.root}: "
            "chmod o+x the directories above it, or remove it to have it placed "
            "elsewhere"
        )


def _let_through(root: Path, account: Account) -> None:
    """Let another account pass through root's directory, but not look around."""
    found = root.stat()
    if account.uid != found.st_uid == os.geteuid():
        root.chmod(stat.S_IMODE(found.st_mode) | 0o011)


def private_base() -> Path:
    """Return a directory of the caller's own that all may enter and that stays.

    Raises:
        DevServerError: There is no place for one.
    """
    for path in _bases():
        with suppress(OSError):
            path.mkdir(mode=0o755, exist_ok=True)
            if _is_own(path):
                path.chmod(0o755)
                return path
    raise DevServerError(
        f"cannot keep files in any of {', '.join(map(str, _bases()))}: make one of "
        "them a directory of your own that only you can write to, or set DATABASE_URL"
    )


def _bases() -> Iterator[Path]:
    """Name candidates; /var/lib first, since cleaners empty the temporary ones."""
    if os.geteuid() == 0:
        yield Path("/var/lib/pgqueue-devserver")
    yield Path(f"/var/tmp/pgqueue-devserver-{os.geteuid()}")  # noqa: S108 - checked


def _is_own(path: Path) -> bool:
    found = path.lstat()
    others_may_write = stat.S_IMODE(found.st_mode) & 0o022
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return own and not others_may_write
