"""The lock by which a server owns its directory.

The process that starts a server takes the lock and hands the open file down to it. The
kernel keeps the lock until the last of the server's processes is gone, however they
end, and across containers, where process ids say nothing. So a free lock means: no
server, unless somebody started one by hand, which the pid file tells.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def try_to_own(path: Path) -> Iterator[int | None]:
    """Take the lock, if it is free, for the block; a process started with it keeps it.

    Yields:
        The file descriptor that holds the lock, or None: somebody else has it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor if _lock(descriptor, fcntl.LOCK_EX) else None
    finally:
        os.close(descriptor)


def is_owned(path: Path) -> bool:
    """Tell whether somebody holds the lock, without keeping others from it for long."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        # Shared, so that those who only ask do not see each other.
        return not _lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
