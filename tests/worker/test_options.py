"""What a worker is told is checked where it is said, and refused by name."""

import os
import signal
from time import monotonic

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from pgqueue_django import InvalidJob, Worker
from pgqueue_django.worker.options import Queues, WorkerOptions

NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("name", "values"),
    {
        "threads": [0, -1, 1_001, 2.0, "4", True, None, NAN, 10**400],
        "async_slots": [0, -1, 10_001, 2.0, "4", True, None, NAN, 10**400],
        "lease": [0.29, 0, -1, 86_401, "30", True, None, NAN, INFINITE, 10**400],
        "poll_interval": [0.009, 0, -1, 3_601, "1", False, None, NAN, INFINITE],
        "shutdown_timeout": [-0.1, 86_401, "1", True, None, NAN, -INFINITE],
        "max_jobs": [0, -5, 2**31 + 1, 1.5, "3", True],
        "max_rss": [0, -5, 1.5, "3", True],
        "drain": [None, 1, "yes"],
        "name": ["", "a\0b", "x" * 101, 5, "\ud800"],
        "database": ["no-such-alias", "", 5],
    }.items(),
)
def test_a_wrong_option_is_refused_by_its_name(name, values):
    for value in values:
        with pytest.raises(InvalidJob) as caught:
            Worker(**{name: value})
        assert (caught.value.field, value) == (name, value)
        assert caught.value.message


@pytest.mark.parametrize(
    "queues",
    [
        "",
        [],
        ",",
        "a,,b",
        "a,a",
        "a=1,a=2",
        "a=0",
        "a=-1",
        "a=1.5",
        "a=x",
        "a=",
        "=3",
        "a=1001",
        "a=" + "9" * 5_000,
        "a=²",
        "x" * 101,
        "a\0b",
        [5],
        [None],
        5,
        None,
        b"a",
    ],
)
def test_wrong_queues_are_refused(queues):
    with pytest.raises(InvalidJob) as caught:
        Worker(queues)
    assert caught.value.field == "queues"


def test_an_unknown_option_is_refused_by_its_name():
    with pytest.raises(TypeError, match="thread"):
        Worker(thread=3)


def test_options_at_their_bounds_are_taken():
    for options in (
        {"threads": 1, "lease": 0.3, "poll_interval": 0.01, "shutdown_timeout": 0},
        {"threads": 1_000, "lease": 86_400, "poll_interval": 3_600, "max_jobs": 2**31},
    ):
        assert Worker(**options).options.threads == options["threads"]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a", "a"),
        (" a , b ", "a,b"),
        (["a", "b"], "a,b"),
        ("a=3,b", "a=3,b=1"),
        (("a=3", "b=1"), "a=3,b=1"),
        (iter(["a"]), "a"),
    ],
)
def test_queues_are_read_from_text_and_lists(given, shown):
    assert str(Queues.parse(given)) == shown


def test_strict_order_is_the_order_given():
    assert list(Queues.parse("c,a,b").order()) == ["c", "a", "b"]


def test_by_weight_each_comes_first_in_proportion():
    queues = Queues.parse("a=3,b=1")
    first = [queues.order()[0] for _ in range(4_000)]
    assert 2_700 < first.count("a") < 3_300


def test_settings_are_the_defaults(settings):
    settings.PGQUEUE = {
        "LEASE_SECONDS": 12,
        "POLL_INTERVAL_SECONDS": 0.7,
        "SHUTDOWN_TIMEOUT_SECONDS": 3,
        "HEARTBEAT_SECONDS": 2,
        "ASYNC_SLOTS": 7,
    }
    options = WorkerOptions()
    assert (options.lease, options.poll_interval) == (12, 0.7)
    assert (options.shutdown_timeout, options.heartbeat) == (3, 2)
    assert WorkerOptions(lease=3).heartbeat == 1
    assert (options.async_slots, WorkerOptions(async_slots=9).async_slots) == (7, 9)


def test_two_starts_never_have_the_same_identity():
    name = "w" * 100
    identities = {Worker(name=name).identity for _ in range(100)}
    assert len(identities) == 100
    assert all(identity.startswith(name) for identity in identities)
    assert all(len(identity) <= 200 for identity in identities)


# --- the command ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--threads", "0"),
        ("--threads", "many"),
        ("--lease", "0.1"),
        ("--lease", "nan"),
        ("--lease", "long"),
        ("--poll-interval", "0"),
        ("--poll-interval", "inf"),
        ("--shutdown-timeout", "-1"),
        ("--max-jobs", "0"),
        ("--max-jobs", "1.5"),
        ("--max-rss", "0"),
        ("--queues", ""),
        ("--queues", "a,a"),
        ("--queues", "a=0"),
        ("--name", ""),
        ("--database", "no-such-alias"),
        ("--processes", "-1"),
        ("--processes", "101"),
    ],
)
def test_a_wrong_flag_is_refused_by_its_name(flag, value):
    with pytest.raises(CommandError) as caught:
        call_command("pgqueue_worker", f"{flag}={value}")
    assert flag in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_database_of_another_kind_is_refused_in_one_line(start_process):
    process = start_process(
        until=None, ENGINE="django.db.backends.sqlite3", NAME=":memory:", OPTIONS={}
    )
    assert process.wait() == 1
    assert "PostgreSQL" in process.log
    assert "Traceback" not in process.log


@pytest.mark.parametrize("alone", [True, False])
def test_a_database_without_the_table_is_said_in_one_line(start_process, alone):
    process = start_process(until=None, alone=alone, NAME="postgres")
    assert process.wait() == 1
    assert "migrate" in process.log
    assert process.log.count("\n") == 1


def test_a_table_that_may_not_be_read_is_said_in_one_line(start_process, connect):
    other = connect()
    # Roles are the whole server's, on which another suite may run.
    role = f"pgqueue_test_{os.getpid()}"
    other.execute(f"CREATE ROLE {role}")
    try:
        options = {**connection.settings_dict["OPTIONS"], "assume_role": role}
        process = start_process(until=None, OPTIONS=options)
        assert process.wait() == 1
    finally:
        other.execute(f"DROP ROLE {role}")
    assert "permission denied" in process.log
    assert "migrate" not in process.log
    assert process.log.count("\n") == 1


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_database_that_is_away_is_said_in_one_line_and_waited_for(
    start_process, number, alone
):
    process = start_process(
        until="trying again", alone=alone, HOST="127.0.0.1", PORT="1"
    )
    began = monotonic()

    process.signal(number)

    assert process.wait() == 0
    assert monotonic() - began < 5
    assert process.log.count("\n") == 1


def test_wrong_settings_are_named_and_end_the_command(start_process):
    process = start_process(until=None, pgqueue={"LEASE_SECOND": 3})
    assert process.wait() == 1
    assert "LEASE_SECONDS" in process.log
    assert "Traceback" not in process.log


def test_all_options_reach_the_worker(start_process):
    flags = ["--queues=a=3,b", "--threads=3", "--name=my-worker", "--drain"]
    process = start_process(*flags, "--max-jobs=5", "--shutdown-timeout=1", until=None)

    assert process.wait() == 0
    assert "my-worker-" in process.log
    assert "serves a=3,b=1 with 3 threads" in process.log
