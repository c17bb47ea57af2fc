import json
import os
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path
from threading import Event
from time import monotonic

import pytest
from django.core.management import CommandError, call_command

from pgqueue_django.bench.suite import BENCHES

ROOT = Path(__file__).resolve().parent.parent.parent

TINY = {
    "throughput": ["--jobs=200", "--processes=2"],
    "latency": ["--jobs=20", "--rate=200"],
    "enqueue": ["--jobs=20", "--many=50"],
    "growth": ["--jobs=100", "--rows=50", "--processes=1"],
    "bloat": ["--jobs=400", "--processes=1"],
    "queues": ["--jobs=200", "--processes=1"],
    "metrics": ["--rows=50"],
    "idle": ["--seconds=1", "--processes=1"],
    "soak": ["--seconds=2", "--processes=1"],
}


def tiny(name):
    repeats = ["--repeats=1"] if "repeats" in BENCHES[name].options else []
    return [name, *TINY[name], *repeats]


@pytest.mark.parametrize("name", BENCHES)
def test_bench_prints_one_object_and_leaves_no_database(bench, name):
    printed = bench(*tiny(name))
    assert printed["bars"]
    assert printed["bench"] == name
    assert printed["environment"]["server"]["fsync"] in {"on", "off"}
    for figure in (*printed["measured"].values(), *printed["floor"].values()):
        assert figure.keys() == {"unit", "median", "spread", "values"}
        assert all(value >= 0 or figure["unit"] == "ms" for value in figure["values"])
    for bar in printed["bars"]:
        assert bar.keys() == {"name", "value", "bar", "ok"}


def test_repeats_are_as_many_as_asked_for(bench):
    printed = bench("enqueue", "--jobs=10", "--many=10", "--repeats=3")
    assert len(printed["measured"]["one by one"]["values"]) == 3


@pytest.mark.parametrize("handler", ["orm", "async-sleep:1"])
def test_throughput_runs_real_work(bench, handler):
    options = ["--jobs=50", "--processes=1", "--repeats=1", f"--handler={handler}"]
    printed = bench("throughput", *options, "--claim=for-update")
    assert printed["measured"]["throughput"]["median"] > 0
    assert printed["bars"] == []


def test_saved_report_is_a_baseline(bench, tmp_path):
    path = tmp_path / "baseline.json"
    run = ["enqueue", "--jobs=10", "--many=10", "--repeats=1"]
    printed = bench(*run, f"--save={path}")
    stored = json.loads(path.read_text())
    assert stored == printed

    for figure in stored["measured"].values():
        figure["values"] = [value / 1_000 for value in figure["values"]]
    path.write_text(json.dumps(stored))
    assert bench(*run, f"--against={path}")["against"]["verdict"] == "better"


def test_worse_than_the_baseline_is_exit_code_1(bench, tmp_path):
    path = tmp_path / "baseline.json"
    run = ["enqueue", "--jobs=10", "--many=10", "--repeats=1"]
    stored = bench(*run)
    for figure in stored["measured"].values():
        figure["values"] = [value * 1_000 for value in figure["values"]]
    path.write_text(json.dumps(stored))
    printed = StringIO()
    with pytest.raises(SystemExit) as caught:
        call_command("pgqueue_bench", *run, f"--against={path}", stdout=printed)
    assert caught.value.code == 1
    assert "worse  one by one" in printed.getvalue()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["throughput", "--jobs=0"], "must be a whole number from 4"),
        (["throughput", "--jobs=many"], "must be a whole number from 4"),
        (["throughput", "--claim=nowait"], "must be skip-locked or for-update"),
        (["throughput", "--handler=sleep"], "must be noop, orm, sleep:MS"),
        (["latency", "--rate=nan"], "must be jobs/s from 0.1"),
        (["idle", "--seconds=-1"], "must be seconds from 1"),
        (["throughput", "--database=other"], "'other' is none of DATABASES"),
        (["throughput", "--against=/no/such"], "--against: /no/such cannot be read"),
        (["throughput", "--save=/no/such/file"], "--save: /no/such/file is no file"),
        (["speed"], "invalid choice: 'speed'"),
    ],
)
def test_wrong_option_is_refused_before_anything_runs(left_over, arguments, said):
    before = left_over()
    with pytest.raises(CommandError, match=said):
        call_command("pgqueue_bench", *arguments)
    assert left_over() <= before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_bench_leaves_nothing(left_over, number):
    before = left_over()
    running = subprocess.Popen(
        [sys.executable, "manage.py", "pgqueue_bench", "idle", "--seconds=100"],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = monotonic() + 30
    while left_over() <= before and monotonic() < deadline:
        Event().wait(0.05)
    os.killpg(running.pid, number)
    assert running.wait(timeout=30) != 0
    assert left_over() <= before
