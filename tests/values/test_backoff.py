"""How long a job waits after a failed attempt."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgqueue_django import limits
from pgqueue_django.backoff import Backoff

EXACT = Backoff(base=2, factor=3, cap=100, jitter=0)


def test_grows_by_its_factor_from_its_base():
    assert [EXACT.delay(attempt) for attempt in (1, 2, 3, 4)] == [2, 6, 18, 54]


def test_stops_growing_at_its_cap():
    assert EXACT.delay(5) == 100


def test_takes_an_attempt_below_one_as_the_first():
    assert EXACT.delay(0) == EXACT.delay(-5) == EXACT.delay(1)


@pytest.mark.parametrize("attempt", [30, 31, 32, 63, 64, 1023, 1100, 2000, 10_000])
def test_is_never_negative_nor_over_the_cap_late_in_a_job_s_life(attempt):
    """TIM-12: no delay overflows, with jitter on."""
    for random in (lambda: 0.0, lambda: 0.999_999):
        assert 1800 <= Backoff(base=2.0).delay(attempt, random) <= 3600


def test_half_of_the_delay_is_random_by_default():
    backoff = Backoff(base=10, factor=1)
    assert backoff.delay(1, lambda: 0.0) == 5
    assert backoff.delay(1, lambda: 0.5) == 7.5


def test_full_jitter_reaches_down_to_nothing():
    backoff = Backoff(base=10, factor=1, jitter=1)
    assert backoff.delay(1, lambda: 0.0) == 0
    assert backoff.delay(1, lambda: 0.25) == 2.5


def test_a_base_of_nothing_never_waits():
    backoff = Backoff(base=0, factor=1e300)
    assert [backoff.delay(attempt) for attempt in (1, 2, 10_000)] == [0, 0, 0]


def test_spreads_delays_without_being_asked():
    assert len({Backoff().delay(3) for _ in range(20)}) > 1


@given(
    base=st.floats(0, allow_infinity=False),
    factor=st.floats(1, allow_infinity=False) | st.integers(1, 10**300),
    cap=st.floats(0, limits.DELAY_SECONDS_MAX),
    jitter=st.floats(0, 1),
    attempt=st.integers(1, 10_000),
    share=st.floats(0, 1, exclude_max=True),
)
def test_stays_between_nothing_and_its_cap(base, factor, cap, jitter, attempt, share):
    backoff = Backoff(base=base, factor=factor, cap=cap, jitter=jitter)
    assert 0 <= backoff.delay(attempt, lambda: share) <= cap


@pytest.mark.parametrize("name", ["base", "factor", "cap", "jitter"])
@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, -1, 10**400, True, "2", None]
)
def test_refuses_what_is_no_number_within_bounds(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be a finite number"):
        Backoff(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("factor", 0.5), ("jitter", 1.1), ("cap", limits.DELAY_SECONDS_MAX + 1)],
)
def test_refuses_each_number_that_is_out_of_its_bounds(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        Backoff(**{name: value})


def test_is_a_value():
    assert Backoff(base=1) == Backoff(base=1.0)
    assert hash(Backoff()) == hash(Backoff())
