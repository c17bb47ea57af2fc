import pytest

from pgqueue_django.bench.handlers import Handler
from pgqueue_django.bench.pacing import paced
from pgqueue_django.bench.seeding import Seeded
from pgqueue_django.bench.suite import BENCHES


@pytest.mark.parametrize(
    ("text", "task", "kwargs"),
    [
        ("noop", "pgqueue_bench.noop", "{}"),
        ("orm", "pgqueue_bench.orm", "{}"),
        ("sleep:5", "pgqueue_bench.sleep", '{"ms": 5.0}'),
        ("cpu:0.5", "pgqueue_bench.cpu", '{"ms": 0.5}'),
        ("async-sleep:20", "pgqueue_bench.async_sleep", '{"ms": 20.0}'),
    ],
)
def test_handler_is_read(text, task, kwargs):
    assert Handler.parse(text) == Handler(task, kwargs)


@pytest.mark.parametrize(
    "text", ["", "sleep", "sleep:", "sleep:-1", "noop:5", "cpu:60001", "walk:3"]
)
def test_wrong_handler_is_told_what_would_be_right(text):
    with pytest.raises(ValueError, match="must be noop, orm, sleep:MS"):
        Handler.parse(text)


def test_sample_is_spread_over_all_jobs_and_has_the_last():
    seeded = Seeded(11, 1_010)
    sample = seeded.sample()
    assert len(sample) == 100
    assert sample[0] == 20
    assert sample[-1] == 1_010


def test_sample_of_few_jobs_is_all_of_them():
    assert Seeded(5, 8).sample() == [5, 6, 7, 8]


def test_pace_counts_all_even_when_late():
    assert list(paced(1_000_000, 50)) == list(range(50))


def test_scale_changes_sizes_and_nothing_else():
    small = BENCHES["throughput"].small_options(0.1)
    assert small["jobs"] == 1_000
    assert small["batch"] == 200
    assert BENCHES["idle"].small_options(0.001)["seconds"] == 1.0


@pytest.mark.parametrize("name", BENCHES)
def test_small_size_has_the_options_of_the_full_one(name):
    bench = BENCHES[name]
    assert bench.small.keys() <= bench.options.keys()
