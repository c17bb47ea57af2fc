"""Projects of their own, each a folder, an empty database and programs in both."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import copy
from pathlib import Path
from textwrap import dedent
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

ROOT = Path(__file__).resolve().parents[2]
BASE = """
SECRET_KEY = "project"
DATABASES = {{"default": {database!r}}}
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "pgqueue_django",
]
"""


class Project:
    """A Django project in a folder.

    Args:
        folder: Where its files are.
        database: Django's settings of a PostgreSQL database that is empty.
    """

    def __init__(self, folder: Path, database: dict[str, Any]) -> None:
        self._folder = folder
        self.environment: dict[str, str] = {}
        self.write("site_settings.py", BASE.format(database=database))

    def with_environment(self, **environment: str) -> "Project":
        """Return the same project, for programs of another environment."""
        other = copy(self)
        other.environment = self.environment | environment
        return other

    def set(self, text: str) -> None:
        """Add lines to the settings."""
        with (self._folder / "site_settings.py").open("a") as settings:
            settings.write(dedent(text))

    def write(self, name: str, text: str) -> None:
        """Write a file, and the folders above it."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))

    def manage(self, *arguments: str) -> str:
        """Run a command of Django's or of an app's; it must succeed."""
        return self.run("-m", "django", *arguments)

    def refused(self, *arguments: str) -> str:
        """Run such a command, which must fail; returns what it says."""
        done = self._run("-m", "django", *arguments)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def python(self, code: str) -> str:
        """Run code with Django set up; it must succeed."""
        return self.run("-c", f"import django; django.setup()\n{dedent(code)}")

    def run(self, *arguments: str) -> str:
        """Run Python in the project; it must succeed, and returns all that it says."""
        done = self._run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self._folder,
            env=os.environ
            | self.environment
            | {
                "DJANGO_SETTINGS_MODULE": "site_settings",
                "PYTHONPATH": os.pathsep.join([str(self._folder), str(ROOT)]),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def empty_database(
    db: None, connection_parameters: Callable[..., dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Return Django's settings of a new database; it must be free at the end."""
    name = f"project_{uuid4().hex}"
    parameters = connection_parameters(dbname="postgres", autocommit=True)
    with closing(psycopg.connect(**parameters)) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield _django_settings(parameters, name)
        server.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))


def _django_settings(parameters: dict[str, Any], name: str) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": parameters.get("user", ""),
        "PASSWORD": parameters.get("password", ""),
        "HOST": parameters.get("host", ""),
        "PORT": parameters.get("port", ""),
    }


@pytest.fixture
def project(tmp_path: Path, empty_database: dict[str, Any]) -> Project:
    """Return a project with nothing but the queue in it."""
    return Project(tmp_path, empty_database)
