"""The face for settings.py."""

import os
import sys
from pathlib import Path

from pgqueue_django.devserver import accounts, lifecycle, paths, sockets

COMMAND = "pgqueue_devserver"


def database_url(default_data_dir: Path | str | None = None) -> str:
    """Return ``DATABASE_URL`` where it is set, else the URL of a running dev server.

    Starts the server if it does not run, except under ``manage.py pgqueue_devserver``,
    which loads the settings as every command does and decides for itself: there the
    URL only says where the server would be.

    Args:
        default_data_dir: As for ``ensure_running``. The environment variable
            ``PGQUEUE_DEVSERVER_DIR`` wins over it; None means ``./.pgdata``.
            ``manage.py pgqueue_devserver`` without ``--data-dir`` uses it too.

    Returns:
        A URL for dj-database-url, psycopg and libpq. An empty ``DATABASE_URL`` counts
        as unset.

    Raises:
        DevServerError: As for ``ensure_running``.
    """
    paths.remember(default_data_dir)
    configured = os.environ.get("DATABASE_URL")
    if configured:
        return configured
    if COMMAND in sys.argv[1:]:
        return _expected_url()
    return lifecycle.ensure_running()


def _expected_url() -> str:
    home = paths.find(None)
    return sockets.expected(home, accounts.for_server(home)).url()
