"""A part is alone in failing only for as long as another was seen to be well."""

import pytest
from django.db import OperationalError

from pgqueue_django.worker import loop
from pgqueue_django.worker.loop import Alone, Recovery


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that a test moves: a list of one number."""
    now = [100.0]
    monkeypatch.setattr(loop, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def parts(clock):
    """Return a part that fails from now on, and one that was well so far."""
    failing, other = Recovery("heartbeat"), Recovery("promoter")
    failing.failed(OperationalError())
    return failing, other


def test_an_outage_that_the_other_did_not_notice_is_no_proof(parts, clock):
    failing, other = parts
    alone = Alone(failing, other)
    clock[0] += 4
    other.succeeded()

    assert alone.seconds() == 0


def test_it_is_alone_from_the_first_success_of_the_other(parts, clock):
    failing, other = parts
    alone = Alone(failing, other)
    for _ in range(3):
        clock[0] += 4
        other.succeeded()
        seconds = alone.seconds()

    assert seconds == 8


def test_an_outage_of_both_ends_it(parts, clock):
    failing, other = parts
    alone = Alone(failing, other)
    for _ in range(3):
        clock[0] += 4
        other.succeeded()
        alone.seconds()
    other.failed(OperationalError())
    assert alone.seconds() == 0
    clock[0] += 4
    other.succeeded()

    assert alone.seconds() == 0


def test_a_recovery_ends_it(parts, clock):
    failing, other = parts
    alone = Alone(failing, other)
    for _ in range(3):
        clock[0] += 4
        other.succeeded()
        alone.seconds()
    failing.succeeded()

    assert alone.seconds() == 0
