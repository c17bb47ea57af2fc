"""``python -m bench.model``."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_command_runs_the_walk_and_the_model_and_says_what_they_saw():
    command = "-m bench.model --minutes=0 --steps=4 --attempts=1 --seed=3 --json"
    done = subprocess.run(
        [sys.executable, *command.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["ok"]
    assert report["problems"] == []
    assert report["lost"] == report["stale_writes_accepted"] == 0
    assert report["walk"]["states"] > 50
    assert report["rounds"] == 1
    assert report["steps"] > 100
