"""What the table itself refuses, by the names of its constraints."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction

from pgqueue_django.models import Job
from tests import factories

pytestmark = pytest.mark.django_db

INSTANTS = (
    "run_at",
    "enqueued_at",
    "lease_expires_at",
    "first_claimed_at",
    "claimed_at",
    "finished_at",
)


def update(id_: int, assignments: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE pgqueue_job SET {assignments} WHERE id = {id_}")


def refused_by(id_: int, assignments: str) -> str:
    with pytest.raises(IntegrityError) as caught, transaction.atomic():
        update(id_, assignments)
    assert isinstance(caught.value.__cause__, psycopg.Error)
    name = caught.value.__cause__.diag.constraint_name
    assert name is not None
    return name


def _make(column: str) -> Any:
    """Return a job on which the column may have any instant."""
    if column == "lease_expires_at":
        return factories.claimed().id
    return (factories.succeeded() if column == "finished_at" else factories.queued()).id


@pytest.mark.parametrize("column", INSTANTS)
@pytest.mark.parametrize(
    "value",
    [
        "infinity",
        "-infinity",
        "0044-03-15 BC",
        "1969-12-31 23:59:59.999999+00",
        "9000-01-01 00:00:00.000001+00",
        "294276-12-31",
    ],
)
def test_an_instant_that_not_every_reader_can_hold_is_refused(column, value):
    """TIM-10."""
    refused = refused_by(_make(column), f"{column} = '{value}'")

    assert refused == "pgqueue_job_instants_readable"


@pytest.mark.parametrize("column", INSTANTS)
@pytest.mark.parametrize("value", ["1970-01-01 00:00:00+00", "9000-01-01 00:00:00+00"])
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12"])
def test_the_first_and_the_last_instant_can_be_read_in_any_zone(column, value, zone):
    """TIM-11."""
    id_ = _make(column)
    update(id_, f"{column} = '{value}'")
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL TimeZone = '{zone}'")

    assert getattr(factories.get(id_), column).utcoffset() == timedelta(0)


LEASED = "pgqueue_job_leased_iff_running"
FINISHED = "pgqueue_job_finish_time_iff_finished"
TOKEN = "lease_token = gen_random_uuid()"
EXPIRY = "lease_expires_at = now()"


@pytest.mark.parametrize(
    ("assignments", "name"),
    [
        ("state = 'nonsense'", "pgqueue_job_state_known"),
        ("state = ''", "pgqueue_job_state_known"),
        ("state = 'Queued'", "pgqueue_job_state_known"),
        ("state = 'running'", LEASED),
        (f"state = 'running', {TOKEN}", LEASED),
        (f"state = 'running', {EXPIRY}", LEASED),
        (TOKEN, LEASED),
        (EXPIRY, LEASED),
        (f"{TOKEN}, {EXPIRY}", LEASED),
        ("state = 'succeeded'", FINISHED),
        ("state = 'dead'", FINISHED),
        ("state = 'cancelled'", FINISHED),
        ("finished_at = now()", FINISHED),
        ("state = 'scheduled', finished_at = now()", FINISHED),
        ("state = 'unserved', finished_at = now()", FINISHED),
        (f"state = 'running', {TOKEN}, {EXPIRY}, finished_at = now()", FINISHED),
        ("priority = 101", "pgqueue_job_priority_in_bounds"),
        ("priority = -101", "pgqueue_job_priority_in_bounds"),
        ("attempts = -1", "pgqueue_job_attempts_in_bounds"),
        ("max_attempts = 0", "pgqueue_job_attempts_in_bounds"),
        ("max_attempts = 10001", "pgqueue_job_attempts_in_bounds"),
        ("timeout_seconds = 0", "pgqueue_job_timeout_in_bounds"),
        ("timeout_seconds = -1", "pgqueue_job_timeout_in_bounds"),
        ("timeout_seconds = 'NaN'", "pgqueue_job_timeout_in_bounds"),
        ("timeout_seconds = 'Infinity'", "pgqueue_job_timeout_in_bounds"),
        ("timeout_seconds = '-Infinity'", "pgqueue_job_timeout_in_bounds"),
        ("timeout_seconds = 31622401", "pgqueue_job_timeout_in_bounds"),
        ("errors = '{}'", "pgqueue_job_errors_is_a_list"),
        ("errors = 'null'", "pgqueue_job_errors_is_a_list"),
        ("errors = '\"x\"'", "pgqueue_job_errors_is_a_list"),
        ("queue = ''", "pgqueue_job_names_not_empty"),
        ("task = ''", "pgqueue_job_names_not_empty"),
        ("idempotency_key = ''", "pgqueue_job_names_not_empty"),
        ("unique_key = ''", "pgqueue_job_names_not_empty"),
    ],
)
def test_a_wrong_value_is_refused_by_name(assignments, name):
    """PAY-06 among them: NaN."""
    assert refused_by(factories.queued().id, assignments) == name


def test_a_running_job_without_a_lease_is_refused():
    attempt = factories.claimed()

    assert refused_by(attempt.id, "lease_token = NULL") == LEASED
    assert refused_by(attempt.id, "lease_expires_at = NULL") == LEASED
    assert refused_by(attempt.id, "state = 'queued'") == LEASED


def test_a_finished_job_without_its_time_is_refused():
    assert refused_by(factories.dead().id, "finished_at = NULL") == FINISHED
    assert refused_by(factories.dead().id, "state = 'queued'") == FINISHED


def test_a_key_is_there_once_in_a_queue():
    factories.queued(idempotency_key="k")
    other = factories.queued()

    assert (
        refused_by(other.id, "idempotency_key = 'k'")
        == "pgqueue_job_idempotency_key_once_per_queue"
    )
    update(other.id, "idempotency_key = 'k', queue = 'other'")


def test_a_unique_key_is_there_once_a_queue_while_its_job_is_live():
    live = factories.queued(unique_key="k")
    ended = factories.cancelled()
    other = factories.queued()

    update(ended.id, "unique_key = 'k'")
    assert (
        refused_by(other.id, "unique_key = 'k'")
        == "pgqueue_job_unique_key_once_per_queue_while_live"
    )
    update(other.id, "unique_key = 'k', queue = 'other'")
    update(live.id, "state = 'dead', finished_at = now()")
    update(other.id, "queue = 'default'")


def test_every_constraint_of_the_model_is_tried_here():
    tried = {"pgqueue_job_instants_readable"} | {
        mark.args[1][n][1]
        for mark in test_a_wrong_value_is_refused_by_name.pytestmark
        for n in range(len(mark.args[1]))
    }
    unique = {
        "pgqueue_job_idempotency_key_once_per_queue",
        "pgqueue_job_unique_key_once_per_queue_while_live",
    }

    known = {constraint.name for constraint in Job._meta.constraints}
    assert known <= tried | unique, known - tried - unique


def test_the_database_has_every_constraint_and_index_of_the_model():
    with connection.cursor() as cursor:
        there = connection.introspection.get_constraints(cursor, "pgqueue_job")
    wanted = {c.name for c in Job._meta.constraints} | {
        index.name for index in Job._meta.indexes
    }

    assert wanted <= set(there)


def test_there_is_neither_a_trigger_nor_a_foreign_key():
    """Rule 9: the table can be distributed by its queue."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT count(*) FROM pg_trigger WHERE tgrelid = t.oid),"
            " (SELECT count(*) FROM pg_constraint WHERE contype = 'f'"
            "  AND t.oid IN (conrelid, confrelid))"
            " FROM (SELECT 'pgqueue_job'::regclass::oid AS oid) AS t"
        )
        assert cursor.fetchall() == [(0, 0)]


def test_the_table_options_are_set():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT reloptions FROM pg_class WHERE oid = 'pgqueue_job'::regclass"
        )
        options = dict(option.split("=") for option in cursor.fetchall()[0][0])

    assert int(options["fillfactor"]) < 100
    assert float(options["autovacuum_vacuum_scale_factor"]) <= 0.02
