"""Every order of statements on one job, of two workers and all others."""

from contextlib import closing

import pytest

from pgqueue_django.states import State
from tests.model.laws import ARROWS
from tests.model.walk import Covered, Key, Walk

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.usefixtures("need_no_disk")
def test_every_interleaving_of_statements_keeps_the_rules():
    """Rules 1 to 4, LEA-01, LEA-15, LEA-16."""
    with closing(Walk(max_attempts=2)) as walk:
        covered = walk.run()

    assert len(covered.states) > 100
    assert len(covered.edges) > 2_000
    assert covered.orders(8) > 10**9
    # A row is in each state that it can be in, and gone.
    assert {key.state for key in covered.states} == {None, *State}
    # A lease that somebody lost is written under from all of them.
    lost = {key.state for key in covered.states if "a lost lease" in key.holds}
    assert lost == {None, *State}
    not_walked = {"claim_on", "claim_along"}
    assert {edge.verb for edge in covered.edges} >= set(ARROWS) - not_walked
    assert _stuck(covered) == set()


def _stuck(covered: Covered) -> set[Key]:
    """Return from where a job cannot come to succeed, though it lives or is dead.

    CNC-16: wherever anybody dies between two statements, some later one goes on.
    """
    can = {key for key in covered.states if key.state == State.SUCCEEDED}
    while more := {e.before for e in covered.edges if e.after in can} - can:
        can |= more
    final = {State.CANCELLED, None}
    return {key for key in covered.states - can if key.state not in final}
