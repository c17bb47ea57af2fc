"""What a bench ran on."""

import os
import platform
from pathlib import Path
from typing import Any, Final

import django
import psycopg

import pgqueue_django
from pgqueue_django.bench.connecting import Connection

# What a queue's speed depends on.
_SETTINGS: Final = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_level",
    "wal_sync_method",
    "wal_compression",
    "shared_buffers",
    "max_wal_size",
    "checkpoint_timeout",
    "commit_delay",
    "autovacuum",
    "autovacuum_naptime",
    "jit",
    "server_encoding",
    "lc_collate",
)


def environment(connection: Connection) -> dict[str, Any]:
    """Return versions, the machine, and the server's settings."""
    return {
        "pgqueue_django": pgqueue_django.__version__,
        "python": platform.python_version(),
        "django": django.get_version(),
        "psycopg": f"{psycopg.__version__} ({psycopg.pq.__impl__})",
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "memory_mb": _memory_mb(),
        "load_at_start": round(os.getloadavg()[0], 2),
        "server_is_local": is_local(connection),
        "server": _server_settings(connection),
    }


def _server_settings(connection: Connection) -> dict[str, str]:
    rows = connection.execute(
        "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s)",
        [list(_SETTINGS)],
    )
    return {str(name): str(value) for name, value in sorted(rows.fetchall())}


def is_local(connection: Connection) -> bool:
    """Tell whether the server runs on this machine."""
    host = connection.info.hostaddr or connection.info.host
    return host.startswith("/") or host in {"", "127.0.0.1", "::1"}


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    names = [line for line in text.splitlines() if line.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else platform.machine()


def _memory_mb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
