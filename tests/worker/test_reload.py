"""``--reload``: new code after the running job (DJG-16)."""

import re
from functools import partial
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests import factories
from tests.waiting import wait_until
from tests.worker import handlers
from tests.worker.conftest import WAIT, add, finished

NAME = "reloaded_tasks"
CODE = """
from django.conf import settings
from pgqueue_django import task
from tests.worker.handlers import hold

@task(name="reloaded.site_name")
def site_name():
    return settings.SITE_NAME

@task(name="reloaded.version")
def version():
    return {version!r}
"""


SETTINGS = """
from tests.worker.process_settings import *

SITE_NAME = {name!r}
"""


def write_whole(path, text):
    # A name of its own, so that a reader finds the file whole.
    new = Path(f"{path}.new")
    new.write_text(text)
    new.rename(path)


@pytest.fixture
def module(tmp_path):
    """Return a function that saves the module of a task that tells its version."""
    path = tmp_path / f"{NAME}.py"

    def save(version=None):
        write_whole(path, CODE.format(version=version) if version else "def broken(:\n")

    return save


@pytest.fixture
def start(start_process, tmp_path, module):
    def started(*flags):
        module("first")
        return start_process(
            "--reload",
            *flags,
            pgqueue={"TASK_MODULES": [NAME, "tests.worker.handlers"]},
            python_path=str(tmp_path),
        )

    return started


def version():
    return result_of("reloaded.version")


def result_of(task):
    return finished(factories.queued(task).id, timeout=3 * WAIT).result


def starts(process):
    return len(re.findall("worker .* serves", process.log))


def test_djg_16_new_code_runs_after_the_running_job(start, module, held_by, let_go):
    process = start("--threads=1")
    assert version() == "first"
    id_ = add(handlers.hold, str(let_go.folder))
    child = held_by()
    wait_until(lambda: module("second") or "has changed" in process.log, WAIT)
    later = factories.queued("reloaded.version").id
    let_go()

    assert finished(id_).result == f"done by {child}"
    assert finished(later, timeout=3 * WAIT).result == "second"
    assert starts(process) == 2
    assert process.stop() == 0


def test_djg_16_a_syntax_error_is_waited_out(start, module):
    process = start()
    # Again and again: the watcher begins with what it finds.
    wait_until(lambda: module() or "are missing" in process.log, WAIT)
    wait_until(lambda: module("third") or starts(process) >= 3, WAIT)
    assert version() == "third"
    assert process.stop() == 0


def test_djg_16_five_saves_in_a_second_end_with_the_last(
    start, module, held_by, let_go
):
    process = start("--threads=1")
    id_ = add(handlers.hold, str(let_go.folder))
    child = held_by()
    wait_until(lambda: module("second") or "has changed" in process.log, WAIT)
    for number in range(5):
        module(f"save {number}")
    let_go()

    assert finished(id_).result == f"done by {child}"
    assert version() == "save 4"
    assert process.log.count("has changed") == 1
    assert starts(process) == 2
    assert process.stop() == 0


def test_djg_16_changed_settings_count(start, tmp_path):
    settings = tmp_path / "reloaded_settings.py"
    save = partial(write_whole, settings)
    save(SETTINGS.format(name="old"))
    process = start(f"--settings={settings.stem}")
    assert result_of("reloaded.site_name") == "old"

    new = SETTINGS.format(name="new")
    wait_until(lambda: save(new) or "has changed" in process.log, WAIT)
    wait_until(lambda: starts(process) == 2, 3 * WAIT)

    assert str(settings) in process.log
    assert result_of("reloaded.site_name") == "new"
    assert process.stop() == 0


def test_one_signal_ends_both_after_the_running_job(start, held_by, let_go):
    id_ = add(handlers.hold, str(let_go.folder))
    process = start()
    child = held_by()
    process.process.terminate()
    let_go()
    assert finished(id_).result == f"done by {child}"
    assert process.wait() == 0


def test_not_with_processes():
    with pytest.raises(CommandError, match="--reload: goes with one process"):
        call_command("pgqueue_worker", "--reload", "--processes=2")
