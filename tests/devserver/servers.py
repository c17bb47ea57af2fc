"""Hold of real servers: who runs one, how to kill it, and when it is gone."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import django
import psycopg

from pgqueue_django.devserver import locks, paths

REPOSITORY = Path(__file__).parents[2]
NOBODY = 65534
NO_PASSWD_ENTRY = 54321

# What a child process does: one call of the public face, its answer as JSON.
_CALL = """
import json, sys
from pgqueue_django import devserver
try:
    answer = getattr(devserver, sys.argv[1])(sys.argv[2], **json.loads(sys.argv[3]))
    print(json.dumps({"answer": answer}, default=str))
except devserver.DevServerError as error:
    print(json.dumps({"error": str(error)}))
"""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Somebody who calls the dev server from a process of their own."""

    python: str
    uid: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(
        self, function: str, data_dir: Path, **options: Any
    ) -> subprocess.Popen[str]:
        """Make a call, and do not wait for it."""
        arguments = [function, str(data_dir), json.dumps(options)]
        switch: dict[str, Any] = {}
        if self.uid is not None:
            switch = {"user": self.uid, "group": self.uid, "extra_groups": []}
        return subprocess.Popen(
            [self.python, "-c", _CALL, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env=child_environment(self.environment),
            **switch,
        )

    def call(self, function: str, data_dir: Path, **options: Any) -> dict[str, Any]:
        """Make a call; returns its ``answer`` or its ``error``."""
        return finish(self.start(function, data_dir, **options))


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a call."""
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    answer: dict[str, Any] = json.loads(output)
    return answer


def child_environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child that can import what the tests can."""
    site_packages = Path(django.__file__).parents[1]
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": f"{REPOSITORY}:{site_packages}",
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }


def python_for(uid: int) -> str | None:
    """Return a Python that this account can run and import the product with."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            done = subprocess.run(
                [python, "-c", "import pgqueue_django.devserver"],
                check=False,
                capture_output=True,
                cwd="/",
                env=child_environment({}),
                user=uid,
                group=uid,
                extra_groups=[],
            )
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return None


def wait_until(condition: Callable[[], bool], timeout: float = 20) -> None:
    """Look again and again; fail after that many seconds."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        threading.Event().wait(0.02)


def pid_file(data_dir: Path) -> Path:
    """Return the server's pid file."""
    return paths.find(data_dir).pid_file


def postmaster(data_dir: Path) -> int:
    """Return the pid that the pid file names."""
    return int(pid_file(data_dir).read_text().split("\n")[0])


def is_owned(data_dir: Path) -> bool:
    """Tell whether any process of a server is left."""
    return locks.is_owned(paths.find(data_dir).lock)


def kill(data_dir: Path) -> int:
    """Kill the postmaster, wait for the end of its children; returns its pid."""
    pid = postmaster(data_dir)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_owned(data_dir))
    return pid


def postmasters_in(data_dir: Path) -> list[int]:
    """Return the postmasters at work in a directory, by what the kernel knows."""
    data = paths.find(data_dir).data
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            ours = Path(process / "cwd").resolve(strict=True) == data
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        # Its children have titles of their own: "postgres: checkpointer".
        if ours and b"/postgres\0-D" in command:
            found.append(int(process.name))
    return found


def fetch(url: str, sql: str) -> Any:
    """Return the first column of the first row."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(sql.encode()).fetchone()
        return row[0] if row else None


def execute(url: str, *statements: str) -> None:
    """Run statements that return nothing."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())
