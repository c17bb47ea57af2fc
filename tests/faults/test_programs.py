"""Small runs of the fault programs: what they print, and that nothing is lost."""

import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from bench.chaos import order

ROOT = Path(__file__).resolve().parent.parent.parent

# One of each kind, and all that no other kind is like.
CHAOS = [
    "kill a worker",
    "stop backends",
    "freeze",
    "fail over",
    "poison",
    "wrong clocks",
]

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
    "chaos": ["--minutes=0", "--lease=1", f"--faults={','.join(CHAOS)}"],
    "stops": ["--jobs=600", "--stops=2"],
    "stops --processes=2": ["--jobs=600", "--stops=2"],
}


def run(command, *flags):
    name, *more = command.split()
    return subprocess.run(
        [sys.executable, "-m", f"bench.{name}", *more, *flags, "--json"],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", SMALL)
def test_nothing_is_lost(command):
    done = run(command, "--seed=7", *SMALL[command])
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)

    assert report["ok"], (report["problems"], report["failed"])
    assert done.returncode == 0
    assert (
        report["lost"] == report["stale_writes_accepted"] == report["duplicates"] == 0
    )
    assert report["succeeded"] > 0
    assert report["jobs"] == sum(report["ends"].values())
    assert {"interrupted", "recovery_seconds"} <= report.keys()
    assert report["options"]["seed"] == 7
    assert not {"log", "home"} & report["options"].keys()
    assert command != "chaos" or report["faults"] == dict.fromkeys(CHAOS, 1)


def test_the_order_of_chaos_is_that_of_its_seed():
    names = list("abcdefgh")
    rounds = [list(islice(order(names, seed), 16)) for seed in (1, 1, 2)]

    assert rounds[0] == rounds[1] != rounds[2]
    assert sorted(rounds[0][:8]) == sorted(rounds[0][8:]) == names
    assert rounds[0][:8] != rounds[0][8:]
