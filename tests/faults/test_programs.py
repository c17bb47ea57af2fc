"""Small runs of the fault programs: what they print, and that nothing is lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

SMALL = {
    "crash": ["--jobs=60", "--processes=3"],
    "crash --supervised": ["--jobs=60", "--processes=4"],
    "stall": ["--jobs=80"],
    "poison": ["--jobs=100", "--times=1", "--processes=2"],
    "restart": ["--jobs=150", "--rounds=immediate"],
    "partition": [
        "--jobs=60",
        "--processes=2",
        "--stops=1",
        "--stop-within=2",
        "--lease=1",
    ],
    "failover": ["--jobs=200", "--produced=20"],
    "storm": ["--jobs=100", "--processes=2", "--lock=1"],
    "skew": ["--jobs=60", "--lease=1", "--delay=1"],
    "chaos": ["--minutes=0.1", "--lease=1"],
    "stops": ["--jobs=600", "--stops=2"],
    "stops --processes=2": ["--jobs=600", "--stops=2"],
}


@pytest.fixture
def program():
    """Return a function that runs a program; gives its exit code and its object."""

    def run(command, *flags):
        name, *more = command.split()
        done = subprocess.run(
            [sys.executable, "-m", f"bench.{name}", *more, *flags, "--json"],
            cwd=ROOT,
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    return run


@pytest.mark.parametrize("command", SMALL)
def test_nothing_is_lost(program, command):
    code, report = program(command, "--seed=7", *SMALL[command])

    assert report["ok"], (report["problems"], report["failed"])
    assert code == 0
    assert (
        report["lost"] == report["stale_writes_accepted"] == report["duplicates"] == 0
    )
    assert report["succeeded"] > 0
    assert report["jobs"] == sum(report["ends"].values())
    assert {"interrupted", "recovery_seconds"} <= report.keys()
    assert report["options"]["seed"] == 7
