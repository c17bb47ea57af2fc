import pytest

from pgqueue_django.bench.figures import Figure, percentile, ratio, significant, spread


def test_median_is_the_middle_of_the_repeats():
    assert Figure.of("jobs/s", [3, 100, 2]).median == 3
    assert Figure.of("jobs/s", [1, 2]).median == 1.5


def test_spread_is_the_range_as_a_part_of_the_median():
    assert spread([90, 100, 120]) == 0.3
    assert spread([5]) == 0
    assert spread([0, 0, 1]) == 0


@pytest.mark.parametrize(
    ("percent", "wanted"), [(1, 1), (50, 50), (95, 95), (99, 99), (100, 100)]
)
def test_percentile_is_a_value_that_was_measured(percent, wanted):
    assert percentile(range(100, 0, -1), percent) == wanted


def test_percentile_of_few_values_is_one_of_them():
    assert percentile([7], 50) == percentile([7], 99) == 7
    assert percentile([1, 2, 3], 99) == 3


def test_ratio_of_a_base_of_nothing():
    assert ratio(6, 3) == 2
    assert ratio(0, 0) == 1
    assert ratio(1, 0) == float("inf")


def test_numbers_keep_five_significant_digits():
    assert significant(123_456.7) == 123_460
    assert significant(0.000123456) == 0.00012346


def test_ratio_is_taken_repeat_by_repeat():
    own, bare = Figure.of("jobs/s", [50, 80, 10]), Figure.of("jobs/s", [100, 100, 100])
    assert own.over(bare).values == (0.5, 0.8, 0.1)
    assert own.over(bare).unit == "of floor"


def test_figure_survives_json():
    figure = Figure.of("ms", [1.5, 2.5])
    assert Figure.from_json(figure.as_json()) == figure


def test_more_jobs_are_better_and_more_milliseconds_are_not():
    assert Figure.of("jobs/s", [1]).higher_is_better
    assert not Figure.of("ms", [1]).higher_is_better
