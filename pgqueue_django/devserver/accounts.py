"""Which account the server runs as: PostgreSQL refuses to run as root."""

import os
import pwd
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgqueue_django.devserver.errors import DevServerError
from pgqueue_django.devserver.paths import Home

_PREFERRED = ("postgres", "nobody")


@dataclass(frozen=True, kw_only=True)
class Account:
    """The account of the server's processes; the caller's own unless that is root."""

    uid: int
    gid: int

    @property
    def name(self) -> str:
        """The name for messages."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return f"uid {self.uid}"

    def popen_options(self) -> dict[str, Any]:
        """Return what makes subprocess start a process as this account."""
        if os.geteuid() != 0:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def can_reach(self, path: Path) -> bool:
        """Tell whether the account may enter a directory or execute a file.

        Asked of the kernel, by a process of that account, since modes, groups, access
        lists and mount options all have a say.
        """
        command = ["/bin/sh", "-c", 'test -x "$1"', "sh", str(path)]
        options = self.popen_options()
        return subprocess.run(command, check=False, **options).returncode == 0

    def give(self, path: Path) -> None:
        """Make the account the owner of a path that the caller just made."""
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def require_passwd_entry(self) -> None:
        """Refuse before initdb does: it looks its own account up by number."""
        try:
            pwd.getpwuid(self.uid)
        except KeyError:
            raise DevServerError(
                f"initdb needs a passwd entry for uid {self.uid} and there is none: "
                f"add one (echo 'dev:x:{self.uid}:{self.gid}::/tmp:/bin/sh' >> "
                "/etc/passwd, as root), or run as a user that has one, or set "
                "DATABASE_URL"
            ) from None


def for_server(home: Home) -> Account:
    """Choose the account that the server of a home runs as.

    Raises:
        DevServerError: The caller is root and there is no other account, or root owns
            PostgreSQL's directory, which PostgreSQL refuses.
    """
    if os.geteuid() != 0:
        return Account(uid=os.geteuid(), gid=os.getegid())
    return _owner(home) or _unprivileged()


def _owner(home: Home) -> Account | None:
    """Return the owner of existing data: nobody else could read it."""
    try:
        found = home.data.stat()
    except FileNotFoundError:
        return None
    if found.st_uid == 0:
        raise DevServerError(
            f"{home.data} belongs to root, and PostgreSQL does not run as root: "
            f"chown -R {_unprivileged().name} {home.data}"
        )
    return Account(uid=found.st_uid, gid=found.st_gid)


def _unprivileged() -> Account:
    for entry in _candidates():
        return Account(uid=entry.pw_uid, gid=entry.pw_gid)
    raise DevServerError(
        "PostgreSQL does not run as root and there is no other account: make one "
        "(useradd --system postgres), or set DATABASE_URL"
    )


def _candidates() -> Iterator[pwd.struct_passwd]:
    by_name = {entry.pw_name: entry for entry in pwd.getpwall()}
    preferred = [by_name[name] for name in _PREFERRED if name in by_name]
    return (entry for entry in [*preferred, *by_name.values()] if entry.pw_uid != 0)
