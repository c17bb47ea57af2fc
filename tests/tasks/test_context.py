import pytest

from pgqueue_django import JobContext, LeaseLost
from pgqueue_django.compat import TaskContext
from tests.tasks import handlers


def make(attempt):
    values = {"job_id": 7, "attempt": attempt, "max_attempts": 3}
    return JobContext(task_result=None, **values)  # type: ignore[arg-type]


@pytest.fixture
def context():
    return make(2)


def test_is_djangos_context(context):
    assert isinstance(context, TaskContext)


def test_tells_of_the_attempt(context):
    assert (context.job_id, context.attempt, context.max_attempts) == (7, 2, 3)
    assert not context.is_last_attempt


def test_knows_the_last_attempt():
    last = make(3)
    assert last.is_last_attempt


def test_should_stop_is_an_event_of_its_own(context):
    other = make(2)
    context.should_stop.set()
    assert context.should_stop.wait(0)
    assert not other.should_stop.is_set()


@pytest.mark.parametrize(
    ("write", "args"),
    [("fenced", []), ("save_metadata", [{}]), ("progress", [1]), ("extend", [1])],
)
def test_says_so_where_no_worker_holds_the_job(context, write, args):
    with pytest.raises(LeaseLost, match="no worker holds"):
        getattr(context, write)(*args)


def test_is_the_first_argument(context):
    assert handlers.tell_attempt.call(context, 2) is True  # type: ignore[call-arg]
