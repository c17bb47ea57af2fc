"""All verbs at once, sessions killed, rows pruned and merged: the counters agree."""

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from threading import Event, Timer
from typing import Any

import psycopg
import pytest
from django.db import Error, connection

from pgqueue_django.db import WorkerSession
from pgqueue_django.maintenance.merger import Merger
from tests.counters.reading import totals
from tests.queue.test_storm import Rioter
from tests.threads import together

SECONDS = 4.0
THREADS = 6

# The truth: written by a trigger, row by row, in the transaction that changes the job.
AUDIT = """
CREATE TABLE audit (task text, event text, microseconds bigint);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wait float8 := date_part(
        'epoch', new.claimed_at - greatest(new.enqueued_at, new.run_at));
    run float8 := date_part('epoch', statement_timestamp() - old.claimed_at);
    lost boolean :=
        new.errors -> -1 ->> 'exception' = 'pgqueue_django.exceptions.LeaseExpired';
    event text;
    seconds float8;
BEGIN
    IF new.state = 'running' AND old.state <> 'running' THEN
        IF old.first_claimed_at IS NULL THEN
            event := 'started'; seconds := wait;
        END IF;
    ELSIF old.state = 'running' AND new.state = 'succeeded' THEN
        event := 'succeeded'; seconds := run;
    ELSIF old.state = 'running' AND new.state <> 'running'
            AND new.errors IS DISTINCT FROM old.errors THEN
        seconds := run;
        event := CASE
            WHEN new.state = 'cancelled' THEN 'cancelled_by_handler'
            WHEN new.state = 'dead' AND lost THEN 'lease_expired_dead'
            WHEN new.state = 'dead' THEN 'failed'
            WHEN lost THEN 'lease_expired'
            ELSE 'retried'
        END;
    ELSIF new.state = 'cancelled' AND old.state <> 'cancelled' THEN
        event := CASE WHEN old.first_claimed_at IS NULL
            THEN 'cancelled_unstarted' ELSE 'cancelled' END;
    ELSIF old.state = 'dead' AND new.state = 'queued' THEN
        event := 'requeued';
    END IF;
    IF event IS NOT NULL THEN
        INSERT INTO audit VALUES (
            new.task, event, round(greatest(0, coalesce(seconds, 0)) * 1000000));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER UPDATE ON pgqueue_job
    FOR EACH ROW EXECUTE FUNCTION audit();
"""

# Rows grow old at once, so that there is something to merge.
AGE = """
UPDATE pgqueue_counter
SET starts_at = starts_at - %(hours)s * interval '1 hour'
WHERE ctid = ANY(ARRAY(SELECT ctid FROM pgqueue_counter FOR UPDATE SKIP LOCKED))
RETURNING 1
"""


class Mortal(Rioter):
    """A rioter whose sessions die now and then, in the middle of anything."""

    deaths = 0

    def run(self) -> "Mortal":
        while not self.until.is_set():
            try:
                super().run()
            except Error:
                self.deaths += 1
                self.session.close()
        return self


class Killer:
    """Ends sessions at random."""

    def __init__(self, plain: psycopg.Connection[Any], until: Event) -> None:
        self.plain = plain
        self.until = until
        self.random = Random(1)

    def run(self) -> "Killer":
        while not self.until.wait(0.02):
            # Only those in a statement.
            active = self.plain.execute(
                "SELECT pid FROM pg_stat_activity WHERE state = 'active'"
                " AND datname = current_database()"
                " AND application_name LIKE 'pgqueue test %'"
            ).fetchall()
            if active:
                (pid,) = self.random.choice(active)
                self.plain.execute("SELECT pg_terminate_backend(%s)", [pid])
        return self


class Ager:
    """Makes rows old, and merges them."""

    def __init__(self, session: WorkerSession, until: Event) -> None:
        self.session = session
        self.until = until
        self.random = Random(2)
        self.merged = 0

    def run(self) -> "Ager":
        while not self.until.wait(0.05):
            with suppress(
                Error
            ):  # Its session is killed, too; or two rows are one now.
                self.session.rows(AGE, {"hours": self.random.choice([1, 5, 100])})
                Merger(self.session).run_once()
                self.merged += 1
        return self


@pytest.fixture
def audited(connect) -> Iterator[None]:
    connect().execute(AUDIT)
    yield
    connect().execute("DROP FUNCTION audit CASCADE; DROP TABLE audit")


@pytest.mark.django_db(transaction=True)
def test_counters_agree_with_what_happened_to_the_rows(new_session, connect, audited):
    """MET-01."""
    over = Event()
    rioters = [Mortal(new_session(), number, over) for number in range(THREADS)]
    killer, ager = Killer(connect(), over), Ager(new_session(), over)
    timer = Timer(SECONDS, over.set)
    timer.start()

    together(lambda one: one.run(), [*rioters, killer, ager])  # type: ignore[attr-defined]
    timer.join()

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT task, event, count(*), sum(microseconds)::bigint FROM audit"
            " GROUP BY task, event"
        )
        happened = {row[:2]: row[2:] for row in cursor.fetchall()}
    counted: dict[tuple[str, str], tuple[int, int]] = {}
    for total in totals():
        times, microseconds = counted.get((total.task, total.event), (0, 0))
        counted[total.task, total.event] = (
            times + total.times,
            microseconds + total.microseconds,
        )
    assert counted == happened
    # It was a storm.
    assert {event for _, event in counted} >= {
        "started", "succeeded", "retried", "failed", "cancelled_by_handler",
        "lease_expired", "cancelled", "cancelled_unstarted", "requeued",
    }  # fmt: skip
    assert sum(rioter.deaths for rioter in rioters) > 10
    assert ager.merged > 5
