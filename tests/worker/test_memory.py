"""Handlers that take more memory than their container has."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests import factories
from tests.waiting import wait_until
from tests.worker import handlers, rough
from tests.worker.conftest import add, finished

# Room for a supervisor and two children, and little beside them.
LIMIT = 512 << 20
ROOT = Path("/sys/fs/cgroup")
# Of control groups of the second version, and of the first.
PLACES = [(ROOT, "memory.max"), (ROOT / "memory", "memory.limit_in_bytes")]


@pytest.fixture
def container() -> Iterator[Path]:
    """Return a control group whose processes have little memory, together."""
    group = next(filter(None, (_made(*place) for place in PLACES)), None)
    if group is None:
        pytest.skip("nobody may limit the memory of a group of processes here")
    yield group
    wait_until(lambda: _removed(group))


def _made(place: Path, limit: str) -> Path | None:
    group = place / f"pgqueue-test-{os.getpid()}"
    try:
        group.mkdir()
        # It is there already in a control group; in another folder it would be made.
        with (group / limit).open("r+") as file:
            file.write(str(LIMIT))
    except OSError:
        with suppress(OSError):
            group.rmdir()
        return None
    return group


def _removed(group: Path) -> bool:
    # A killed process is in its group until the kernel is done with it.
    with suppress(OSError):
        group.rmdir()
    return not group.exists()


def inside(container: Path) -> list[str]:
    return ["sh", "-c", f'echo $$ > {container}/cgroup.procs && exec "$@"', "sh"]


def test_prc_05_children_that_the_kernel_kills_for_their_memory(
    container, start_process
):
    """It kills the one that takes the most; supervisor and siblings go on."""
    bad = add(rough.take_all_memory)
    good = factories.queued_many(20, task=handlers.noop.task_name, max_attempts=50)
    process = start_process(
        "--processes=2", "--lease=60", "--threads=1", prefix=inside(container)
    )

    job = finished(bad, timeout=60)

    assert (job.state, job.attempts) == ("dead", 3)
    assert {error["message"] for error in job.errors} == {"worker process died"}
    assert {finished(id_).state for id_ in good} == {"succeeded"}
    assert not process.ended()
    assert process.stop() == 0
