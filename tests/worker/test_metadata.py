"""What a handler says of its job: ``save_metadata``, ``progress``, ``extend``."""

from functools import partial

import pytest

from pgqueue_django import limits
from pgqueue_django.models import Job
from tests import factories
from tests.threads import Started
from tests.waiting import wait_until
from tests.worker import ledgers
from tests.worker.conftest import WAIT, add, in_state

LARGE = "x" * (limits.METADATA_BYTES // 2)


@pytest.fixture(autouse=True)
def nothing_happens():
    ledgers.meanwhile.clear()


def progress_of(id_):
    progress = dict(factories.get(id_).metadata["_progress"])
    assert progress.pop("at")
    return progress


def test_others_see_it_while_the_job_runs(drain):
    seen = []
    id_ = add(ledgers.tell, {"a": 1}, {"b": [None]})
    ledgers.meanwhile.append(lambda: seen.append(factories.get(id_).metadata))
    assert drain() == 0
    assert seen == [{"a": 1}]
    assert factories.get(id_).metadata == {"a": 1, "b": [None]}


def test_it_is_no_part_of_the_handlers_transaction(drain):
    seen = []
    id_ = add(ledgers.tell_in_a_transaction)
    ledgers.meanwhile.append(
        lambda: seen.append(Started(factories.get, id_).result().metadata["seen"])
    )
    assert drain() == 0
    assert seen == [True]
    assert progress_of(id_) == {"done": 3, "total": None, "note": ""}


def test_the_next_attempt_finds_it(drain):
    id_ = add(ledgers.tell, {"at row": 7}, {"_wrong": 1}, options={"max_attempts": 2})
    ledgers.meanwhile.append(lambda: None)
    assert drain() == 0
    job = factories.get(id_)
    assert (job.state, job.metadata) == ("dead", {"at row": 7})

    Job.objects.requeue(id_)
    Job.objects.filter(pk=id_).update(args=[{"more": 1}])
    assert drain() == 0
    assert factories.get(id_).result == {"at row": 7}


def test_has_async_twins(drain):
    id_ = add(ledgers.tell_async)
    assert drain() == 0
    assert factories.get(id_).state == "succeeded"
    assert progress_of(id_) == {"done": 1, "total": 2, "note": "half"}
    assert factories.get(id_).metadata["a"] == 1


@pytest.mark.parametrize(
    ("method", "args", "error"),
    [
        ("save_metadata", [{"_a": 1}], "InvalidJob: metadata: '_a' is reserved"),
        ("save_metadata", [[1]], "metadata: must be a dict"),
        ("save_metadata", [{"a": "x" * limits.METADATA_BYTES}], "metadata"),
        ("progress", [-1], "done: must be 0 or more"),
        ("progress", [True], "done: must be a number"),
        ("progress", [1, "2"], "total: must be a number"),
        ("progress", [1, 2, 3], "note: must be a str"),
        ("extend", [0], "lease: must be more than 0"),
        ("extend", ["1"], "lease: must be seconds"),
    ],
)
def test_wrong_values_are_refused(drain, method, args, error):
    id_ = add(ledgers.call_on, method, *args)
    assert drain() == 0
    job = factories.get(id_)
    assert (job.state, job.metadata) == ("dead", None)
    (failure,) = job.errors
    assert error in f"{failure['exception'].rpartition('.')[2]}: {failure['message']}"


def test_too_much_in_all_is_refused(drain):
    id_ = add(ledgers.tell, {"a": LARGE}, {"b": LARGE}, options={"max_attempts": 1})
    assert drain() == 0
    job = factories.get(id_)
    assert (job.state, job.metadata) == ("dead", {"a": LARGE})
    assert "with what the job has" in job.errors[0]["message"]


def test_a_note_is_cleaned_and_cut(drain):
    id_ = add(ledgers.call_on, "progress", 0.5, 1, "é" * limits.PROGRESS_NOTE_BYTES)
    assert drain() == 0
    note = progress_of(id_)["note"]
    assert len(note.encode()) <= limits.PROGRESS_NOTE_BYTES
    assert note.endswith("…")


@pytest.mark.parametrize(
    ("method", "args"),
    [("save_metadata", [{"a": 1}]), ("progress", [1]), ("extend", [9])],
)
def test_lea_16_a_handler_that_has_lost_its_job_writes_nothing(
    start_worker, heard, method, args
):
    id_ = add(ledgers.call_on, method, *args)
    ledgers.meanwhile.append(partial(Job.objects.cancel, id_))
    running = start_worker(lease=30)
    wait_until(lambda: heard.count("lease_lost"), WAIT)
    before = factories.get(id_)
    assert running.stop() == 0
    assert (before.state, before.metadata, before.lease_token) == (
        "cancelled",
        None,
        None,
    )


def test_a_connection_that_was_lost_is_opened_anew(drain, terminate):
    id_ = add(ledgers.tell, {"a": 1}, {"b": 2})
    ledgers.meanwhile.append(lambda: terminate("pgqueue notes"))
    assert drain() == 0
    assert factories.get(id_).metadata == {"a": 1, "b": 2}


# --- extend ---------------------------------------------------------------------------


def test_an_extended_lease_is_left_alone_until_its_end_is_near(start_worker):
    id_ = add(ledgers.call_on, "extend", 600)
    seen = []

    def look():
        seen.append(factories.seconds_from_now(id_, "lease_expires_at"))

    # Before it, and long enough after it for three renewals.
    ledgers.meanwhile.extend([lambda: (_wait_for_renewals(), look()), look])
    running = start_worker(lease=0.6)
    in_state(id_, "succeeded")
    assert running.stop() == 0
    before, after = seen
    assert before < 1
    assert 590 < after <= 600


def _wait_for_renewals():
    marker = factories.queued("tests.none", queue="elsewhere")
    (attempt,) = factories.claim("elsewhere", lease=0.6)
    assert attempt.id == marker.id
    wait_until(lambda: factories.get(marker.id).state == "queued", WAIT)


def test_a_short_extension_is_a_whole_lease(drain):
    id_ = add(ledgers.call_on, "extend", 0.001)
    seen = []
    ledgers.meanwhile.extend(
        [
            lambda: seen.append(factories.seconds_from_now(id_, "lease_expires_at")),
            lambda: None,
        ]
    )
    assert drain(lease=30) == 0
    assert 25 < seen[0] <= 30
