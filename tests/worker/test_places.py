"""Where the next look into a queue begins."""

from time import monotonic

import pytest

from pgqueue_django.attempts import Place
from pgqueue_django.worker.places import QueuePlace
from tests.worker.conftest import pause

PLACE = Place(0, "2026-01-01 00:00:00+00", 7)


@pytest.fixture
def place():
    begun = QueuePlace()
    begun.moved(PLACE)
    return begun


def test_the_first_look_is_from_the_head(place):
    assert place.start is None


def test_a_look_that_left_something_is_followed_by_one_from_the_place(place):
    place.looked_from_head(monotonic(), emptied=False)
    assert place.start == PLACE


def test_a_quick_look_that_left_nothing_is_followed_by_one_from_the_head(place):
    place.looked_from_head(monotonic(), emptied=True)
    pause(0.01)
    assert place.start is None


def test_a_slow_look_from_the_head_is_not_repeated_at_once(place):
    place.looked_from_head(monotonic() - 0.5, emptied=True)
    assert place.start == PLACE


def test_an_end_found_from_the_place_is_followed_by_a_look_from_the_head(place):
    place.looked_from_head(monotonic(), emptied=False)
    assert place.found_end() < 0.01
    pause(0.01)
    assert place.start is None


def test_an_end_found_soon_after_a_slow_look_from_the_head_waits(place):
    place.looked_from_head(monotonic() - 0.5, emptied=True)
    assert place.found_end() > 0.5
    assert place.start == PLACE
