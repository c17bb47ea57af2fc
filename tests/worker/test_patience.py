"""A hint wakes all workers, and only as many as needed should ask."""

from pgqueue_django.worker.patience import Patience


def test_who_finds_something_answers_at_once():
    patience = Patience()
    patience.lost()
    patience.won()
    assert patience.wait() == 0


def test_who_comes_too_late_waits_longer_each_time_up_to_a_bound():
    patience = Patience()
    longest = []
    for _ in range(12):
        patience.lost()
        longest.append(max(patience.wait() for _ in range(500)))

    assert 0 < longest[0] <= 0.001
    assert 0.005 < longest[-1] <= 0.01
