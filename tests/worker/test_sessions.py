"""What a session of the package's own asks of the server."""

from contextlib import closing

import pytest

from pgqueue_django.db import Session, WorkerSession
from pgqueue_django.db.views import one_view

pytestmark = pytest.mark.django_db(transaction=True)

# A scan that no index can spare.
SCAN = "EXPLAIN (ANALYZE, FORMAT JSON) SELECT count(*) FROM pgqueue_counter"


def assert_compiles_nothing(session: Session) -> None:
    """Where scans are dear to the planner, it would compile each that must be."""
    assert session.rows("SHOW enable_seqscan", {}) == [("off",)]
    assert session.rows("SHOW jit", {}) == [("off",)]
    ((plan,),) = session.rows(SCAN, {})
    assert "JIT" not in plan[0]


def test_workers_statements_are_not_compiled():
    with closing(WorkerSession("default", name="pgqueue test")) as session:
        assert_compiles_nothing(session)


def test_statements_of_a_view_are_not_compiled():
    with one_view("default", name="pgqueue test", seconds=2) as session:
        assert_compiles_nothing(session)
