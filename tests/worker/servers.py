"""What tests do with servers of their own."""

import os
import subprocess
import sys
from typing import Any

import dj_database_url

from tests.worker.conftest import ROOT, database_environment


def settings_of(url: str) -> dict[str, Any]:
    """Return a server's settings in ``DATABASES``."""
    return {**dj_database_url.parse(url)}


def migrate(settings_dict: dict[str, Any]) -> None:
    """Make the tables on another server."""
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity=0"],
        cwd=ROOT,
        env={**os.environ, **database_environment(**settings_dict)},
        check=True,
    )
