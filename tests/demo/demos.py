"""``manage.py demo`` as a child process."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent


class Demo:
    """One run of the demo."""

    def __init__(self, database_url: str, output: Path, *options: str) -> None:
        self._output = output
        with output.open("w") as stdout:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "demo", *options],
                cwd=ROOT,
                env={
                    **os.environ,
                    "DATABASE_URL": database_url,
                    "DJANGO_SETTINGS_MODULE": "demo_project.settings",
                },
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self._output.read_text()

    @property
    def children(self) -> list[int]:
        """The process ids of its children, oldest first."""
        pid = self.process.pid
        return [
            int(child)
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]

    def curl_line(self) -> str:
        """Wait for the line that begins with ``curl``."""

        def look() -> re.Match[str] | None:
            match = re.search(r"^curl .*$", self.output, re.MULTILINE)
            assert match or self.process.poll() is None, self.output
            return match

        found = wait_until(look, 60)
        assert found
        return found[0]

    def exit_code(self) -> int:
        """Wait for its end."""
        return self.process.wait(timeout=30)


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return "State:\tZ" not in status


def run(curl: str) -> tuple[int, dict[str, Any]]:
    """Do what the line says; return the status and the answer."""
    if shutil.which("curl"):
        answer = subprocess.run(
            ["sh", "-c", f"{curl} -w '\\n%{{http_code}}'"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        body, _, status = answer.rpartition("\n")
        return int(status), json.loads(body)
    words = shlex.split(curl)
    with urlopen(
        Request(_url(curl), words[words.index("-d") + 1].encode(), _headers(curl))
    ) as response:
        return response.status, json.load(response)


def state(curl: str, job_id: int) -> str:
    """Ask for a job's state, as the user of the line."""
    with urlopen(Request(f"{_url(curl)}/{job_id}", headers=_headers(curl))) as response:
        return str(json.load(response)["state"])


def _url(curl: str) -> str:
    return next(word for word in shlex.split(curl) if word.startswith("http:"))


def _headers(curl: str) -> dict[str, str]:
    pairs = pairwise(shlex.split(curl))
    return dict(value.split(": ", 1) for word, value in pairs if word == "-H")
