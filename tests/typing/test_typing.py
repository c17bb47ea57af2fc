import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.typing import tasks

ROOT = Path(__file__).resolve().parents[2]
FILE = "tests/typing/tasks.py"


def test_the_accepted_lines_are_tasks():
    assert tasks.bare.call("a", times=2) == ["a", "a"]
    assert tasks.coroutine.call("abc") == 3


def test_mypy_agrees():
    pytest.importorskip("mypy")
    pytest.importorskip("mypy_django_plugin")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", FILE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_agrees():
    pytest.importorskip("pyright")
    if shutil.which("node") is None:
        pytest.skip("node is not on the PATH, and pyright would fetch one")
    config = "tests/typing/pyrightconfig.json"
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "-p", config, "--pythonpath", sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
