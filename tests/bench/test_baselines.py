import json

import pytest

from pgqueue_django.bench import baselines
from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.figures import Figure
from pgqueue_django.bench.reports import Report


def report(*values, unit="jobs/s", jobs=10):
    return Report(
        bench="throughput",
        measured={"throughput": Figure.of(unit, values)},
        options={"jobs": jobs},
    )


@pytest.fixture
def saved(tmp_path):
    def save(one):
        path = tmp_path / "baseline.json"
        baselines.save(one, path)
        return baselines.load(path, "throughput")

    return save


def verdict(now, before, unit="jobs/s"):
    return baselines.verdict(Figure.of(unit, now), Figure.of(unit, before))


def test_change_within_a_tenth_is_none():
    assert verdict([91], [100]) == "same"
    assert verdict([109], [100]) == "same"


def test_fewer_jobs_are_worse_and_more_are_better():
    assert verdict([80], [100]) == "worse"
    assert verdict([120], [100]) == "better"


def test_more_milliseconds_are_worse():
    assert verdict([120], [100], unit="ms") == "worse"
    assert verdict([80], [100], unit="ms") == "better"


def test_repeats_that_overlap_prove_nothing():
    assert verdict([50, 80, 101], [100, 110, 120]) == "same"
    assert verdict([50, 80, 99], [100, 110, 120]) == "worse"


def test_one_worse_figure_makes_all_worse(saved):
    compared = baselines.compare(report(50), saved(report(100)))
    assert baselines.overall(compared) == "worse"
    assert baselines.overall([]) == "same"


def test_report_with_other_options_is_refused(saved):
    with pytest.raises(BenchError, match="other options"):
        baselines.compare(report(100, jobs=20), saved(report(100)))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"measured": {"a": {}}}'])
def test_file_that_is_no_report_is_refused(tmp_path, text):
    path = tmp_path / "no.json"
    path.write_text(text)
    with pytest.raises(BenchError, match="no report"):
        baselines.load(path, "throughput")


def test_report_of_another_bench_is_refused(tmp_path):
    path = tmp_path / "other.json"
    path.write_text(json.dumps({**report(1).as_json(), "bench": "soak"}))
    with pytest.raises(BenchError, match="'soak', not of 'throughput'"):
        baselines.load(path, "throughput")


def test_missing_file_is_named(tmp_path):
    with pytest.raises(BenchError, match="No such file"):
        baselines.load(tmp_path / "none.json", "throughput")
