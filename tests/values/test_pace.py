"""The time between two looks."""

import pytest

from pgqueue_django.notifications import HEARING_FACTOR
from pgqueue_django.pace import Pace


def test_the_first_look_is_due_at_once():
    assert Pace(60, lambda: True).left == 0


@pytest.mark.parametrize(("hears", "factor"), [(False, 1), (True, HEARING_FACTOR)])
def test_looks_are_rarer_while_hints_are_heard_and_never_even(hears, factor):
    pace = Pace(60, lambda: hears)
    waits = []
    for _ in range(200):
        pace.looked()
        waits.append(pace.left)

    assert all(0.74 * 60 * factor < wait <= 60 * factor for wait in waits)
    assert max(waits) - min(waits) > 5


def test_a_listener_that_falls_silent_shortens_the_wait_under_way():
    hearing = [True]
    pace = Pace(60, lambda: hearing[0])
    pace.looked()
    assert pace.left > 60

    hearing[0] = False
    assert pace.left <= 60
