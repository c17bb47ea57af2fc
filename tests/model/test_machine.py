"""The queue does what the model says, whatever happens in whatever order."""

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import bounded, machine_in

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_queue_does_what_the_model_says(world):
    """Rules 1 to 4 and 10, the states, the idempotency keys, and the counters."""
    run_state_machine_as_test(machine_in(world), settings=bounded(25))

    assert world.seen["steps"] > 900
    assert world.seen["claims"] > 20
    assert world.seen["refused"] > 20
