import json

import pytest

from bench.tables import NoSuchTable, number, renewed, table
from pgqueue_django.bench.bars import THROUGHPUT
from pgqueue_django.bench.figures import Figure
from pgqueue_django.bench.reports import Report


@pytest.fixture
def reports():
    throughput = Report(
        bench="throughput",
        measured={"throughput": Figure.of("jobs/s", [1_000, 2_000, 3_000])},
        floor={"bare loop": Figure.of("jobs/s", [4_000])},
        bars=(THROUGHPUT.judge(0.5),),
    )
    return {"throughput": json.loads(json.dumps(throughput.as_json()))}


def test_table_stands_between_its_markers(reports):
    before = "a\n<!-- bench:throughput -->\nold\n<!-- /bench:throughput -->\nb\n"
    after = renewed(before, reports)
    assert "| throughput | 2,000 | jobs/s | 100% |\n" in after
    assert "old" not in after
    assert after.startswith("a\n<!-- bench:throughput -->\n|")
    assert after.endswith("|\n<!-- /bench:throughput -->\nb\n")
    assert renewed(after, reports) == after


def test_bars_are_of_all_benches(reports):
    assert "| 0.7 | 0.5 | missed |" in table("bars", reports)


@pytest.mark.parametrize(
    ("name", "said"), [("speed", "is none of"), ("latency", "which results/ lacks")]
)
def test_marker_that_cannot_be_filled_is_an_error(reports, name, said):
    with pytest.raises(NoSuchTable, match=said):
        table(name, reports)


@pytest.mark.parametrize(
    ("value", "text"), [(12_345.6, "12,346"), (0.123456, "0.123"), (99.94, "99.9")]
)
def test_numbers_are_short(value, text):
    assert number(value) == text
