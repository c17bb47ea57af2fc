"""Several workers under one: replaced when they die, ended when it ends."""

import os
import signal
from contextlib import suppress
from time import monotonic

import pytest

from pgqueue_django.models import Job
from tests.waiting import wait_until
from tests.worker import handlers, rough
from tests.worker.conftest import WAIT, add, finished


def gone(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return False
    return True


def test_the_jobs_of_a_killed_child_run_again_at_once(start_process, held_by, let_go):
    """PRC-05: the supervisor has seen the death, so no lease need end."""
    id_ = add(handlers.hold, str(let_go.folder))
    process = start_process("--processes=2", "--lease=60")
    child = held_by()
    assert child != process.pid

    killed_at = monotonic()
    os.kill(child, signal.SIGKILL)
    other = held_by(besides=child)
    took = monotonic() - killed_at

    assert took < 2
    let_go()
    job = finished(id_)
    assert (job.attempts, job.result) == (2, f"done by {other}")
    assert job.errors[0]["message"] == "worker process died"
    assert process.stop() == 0


def test_a_job_that_is_locked_when_its_child_dies_is_looked_for_again(
    start_process, held_by, let_go, connect
):
    """As by the child's own last statement, which the server goes on with."""
    id_ = add(handlers.hold, str(let_go.folder))
    process = start_process("--processes=2", "--lease=60")
    child = held_by()
    other = connect()

    with other.transaction():
        other.execute("SELECT FROM pgqueue_job WHERE id = %s FOR UPDATE", [id_])
        os.kill(child, signal.SIGKILL)
        process.wait_for("died: signal 9")
    held_by(besides=child)

    let_go()
    assert finished(id_).attempts == 2
    assert process.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_prc_11_a_signal_to_the_group_lets_children_finish(
    start_process, held_by, let_go, number
):
    id_ = add(handlers.hold, str(let_go.folder))
    process = start_process("--processes=2")
    child = held_by()

    process.signal_group(number)
    assert not process.ended()
    let_go()

    assert process.wait() == 0
    assert gone(child)
    assert finished(id_).attempts == 1


def test_a_second_signal_releases_what_the_children_run(start_process, held_by, let_go):
    id_ = add(handlers.hold, str(let_go.folder))
    process = start_process("--processes=1")
    child = held_by()

    process.signal(signal.SIGTERM, signal.SIGINT)

    assert process.wait() == 1
    assert gone(child)
    job = Job.objects.get(pk=id_)
    assert (job.state, job.attempts, job.lease_token) == ("queued", 0, None)


def test_children_end_when_their_supervisor_is_killed(start_process, held_by, let_go):
    id_ = add(handlers.hold, str(let_go.folder))
    process = start_process("--processes=1")
    child = held_by()

    process.process.kill()
    let_go()

    assert finished(id_).attempts == 1
    wait_until(lambda: gone(child), WAIT)


@pytest.mark.parametrize(
    ("flag", "jobs", "megabytes", "jobs_each"),
    [
        ("--max-jobs-per-child=1", 24, 0, 1),
        ("--max-jobs-per-child=4", 30, 0, 4),
        # Each job makes its process too large, though others may begin before it ends.
        ("--max-rss=250", 8, 300, 4),
    ],
)
def test_prc_08_recycled_children_run_each_job_once(
    start_process, flag, jobs, megabytes, jobs_each
):
    ids = [add(rough.count_runs, megabytes) for _ in range(jobs)]
    process = start_process("--processes=2", flag)

    done = [finished(id_, timeout=60) for id_ in ids]

    assert {job.attempts for job in done} == {1}
    assert all(job.metadata == {"runs": 1} for job in done)
    assert len({job.result for job in done}) >= jobs / jobs_each
    assert process.stop() == 0


def test_one_worker_is_supervised_too(start_process):
    process = start_process(alone=False)
    first = finished(add(handlers.where)).result[0]
    assert first != process.pid

    os.kill(first, signal.SIGKILL)

    assert finished(add(handlers.where)).result[0] not in (first, process.pid)
    assert process.stop() == 0


@pytest.mark.parametrize("flag", ["--drain", "--max-jobs=1"])
def test_what_ends_by_itself_has_no_supervisor(start_process, flag):
    id_ = add(handlers.where)
    process = start_process(flag, until=None, alone=False)

    assert process.wait() == 0
    assert finished(id_).result[0] == process.pid


def test_draining_children_end_the_supervisor(start_process):
    ids = [add(handlers.where) for _ in range(20)]

    process = start_process("--processes=2", "--drain", until=None)

    assert process.wait() == 0
    assert {job.state for job in Job.objects.filter(pk__in=ids)} == {"succeeded"}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--processes=0"], "--processes: must be from 1 to 100, not 0"),
        (["--processes=2", "--max-jobs=3"], "say --max-jobs-per-child"),
        (["--processes=2", "--no-supervisor"], "--no-supervisor: goes with one"),
        (["--max-rss=0"], "--max-rss: must be a whole number"),
    ],
)
def test_wrong_flags_are_refused_by_name(start_process, flags, said):
    process = start_process(*flags, until=None)

    assert process.wait() == 1
    assert said in process.log
