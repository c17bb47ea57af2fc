"""Where a worker's microseconds go: ``python -m bench.profile``.

One worker process runs no-op jobs while py-spy looks, several hundred times a second
and without stopping it, at the thread that holds the interpreter lock. Each look stands
for the time until the next; divided by the jobs that is microseconds of a job, by
thread and by function. A function's time is its own, with what it calls in C. CPU that
needs no lock (libpq, the kernel) is in the process' CPU time alone. Writes
``results/profile.json``.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.benchmark import RESULTS
from bench.projects import set_up
from pgqueue_django.bench import usage
from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.figures import Figure
from pgqueue_django.bench.handlers import Handler
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.lab import run as run_in_lab
from pgqueue_django.bench.progress import step
from pgqueue_django.bench.reports import Report
from pgqueue_django.bench.seeding import seed, wait_until_finished
from pgqueue_django.bench.sites import DEFAULT
from pgqueue_django.bench.workers import workers

# Looks a second; and how many functions are told.
_RATE: Final = 500
_TOP: Final = 20

Stack = tuple[list[str], int]
"""The frames from the outermost one, the thread's name first; how often it was seen."""


def main() -> None:
    from django.db import router

    from pgqueue_django.models import Job

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    options = vars(parser.parse_args())
    folder = options.pop("results")
    report = run_in_lab(
        "profile", f"{__spec__.name}:run", router.db_for_write(Job), options
    )
    text = json.dumps(report.as_json(), indent=2) + "\n"
    (folder / "profile.json").write_text(text, encoding="utf-8")
    print(text)


def run(lab: Lab) -> Report:
    """Look at one worker while it runs jobs."""
    usage.require()
    with (
        workers(lab, processes=1, threads=lab["threads"]) as crew,
        lab.connection() as connection,
        step("profile") as shown,
        tempfile.TemporaryDirectory() as folder,
    ):
        file = Path(folder, "stacks")
        spy = _spy(crew.pids[0], file)
        before = usage.cpu_seconds(crew.pids)
        handler = Handler.parse("noop")
        seeded = seed(connection, [DEFAULT], handler, lab["jobs"])
        wait_until_finished(connection, seeded, shown, crew.check)
        cost = 1e6 * (usage.cpu_seconds(crew.pids) - before) / lab["jobs"]
        spy.send_signal(signal.SIGINT)
        spy.wait()
        stacks = list(_stacks(file))
    return _report(cost, stacks, 1e6 / _RATE / lab["jobs"])


def _spy(pid: int, file: Path) -> "subprocess.Popen[bytes]":
    command = [
        "record",
        f"--pid={pid}",
        "--nonblocking",
        "--gil",
        "--threads",
        "--function",
    ]
    output = ["--format=raw", f"--rate={_RATE}", f"-o{file}"]
    program = shutil.which("py-spy", path=Path(sys.executable).parent)
    if program is None:
        raise BenchError("needs py-spy: pip install py-spy")
    return subprocess.Popen(
        [program, *command, *output],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _stacks(file: Path) -> Iterator[Stack]:
    if not file.exists():
        raise BenchError("py-spy saw nothing; it must be allowed to trace processes")
    for line in file.read_text().splitlines():
        frames, _, count = line.rpartition(" ")
        yield frames.split(";"), int(count)


def _report(cost: float, stacks: list[Stack], look: float) -> Report:
    threads: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for frames, count in stacks:
        threads[_thread(frames[0])] += count
        functions[_short(frames[-1])] += count
    return Report(
        bench="profile",
        measured={
            "CPU of the process": Figure.of("us", [cost]),
            "Python, all threads": Figure.of("us", [look * threads.total()]),
            **{
                f"thread {name}": Figure.of("us", [look * count])
                for name, count in threads.most_common()
            },
            **{
                name: Figure.of("us", [look * count])
                for name, count in functions.most_common(_TOP)
            },
        },
    )


def _thread(frame: str) -> str:
    """Return a thread's part; the handlers' threads are one."""
    name = frame.partition(": ")[2] or frame
    return name.rstrip("0123456789_-")


def _short(frame: str) -> str:
    """Return ``function (package/module.py)`` of a frame."""
    function, _, place = frame.partition(" (")
    return f"{function} ({'/'.join(place.rstrip(')').split('/')[-2:])})"


if __name__ == "__main__":
    set_up()
    try:
        main()
    except BenchError as error:
        sys.exit(f"profile: {error}")
