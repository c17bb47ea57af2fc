import pytest

from bench.peers.comparing import described, report
from bench.peers.handlers import first_noop, seen
from bench.peers.known import CELERY, OURS, PEERS, PGQUEUER
from bench.peers.measuring import Measured, latencies
from bench.peers.redis import integer
from bench.tables import table


@pytest.fixture
def reports():
    repeats = {
        OURS: [Measured(30_000, [1.0, 2.0], [3.0, 4.0])] * 3,
        PGQUEUER: [Measured(10_000, [4.0, 8.0], [6.0, 9.0])] * 3,
    }
    told = described({OURS: "0.1", PGQUEUER: "1.6"}, {CELERY: "no Redis"})
    return {"peers": {**report(repeats, {}).as_json(), "peers": told}}


def test_queues_are_shown_from_the_fastest_with_parts_of_ours(reports):
    lines = table("peers-throughput", reports).splitlines()
    assert lines[2].startswith(f"| {OURS} | 0.1 | 30,000 | 0% | 1 |")
    assert lines[3].startswith(f"| {PGQUEUER} | 1.6 | 10,000 | 0% | 0.333 |")


def test_one_left_out_is_named_with_the_reason(reports):
    for name in ("peers-throughput", "peers-latency"):
        assert f"| {CELERY} | left out: no Redis |" in table(name, reports)


def test_pickups_are_shown_in_milliseconds(reports):
    assert f"| {OURS} | 1 | 2 | 3 | 4 |" in table("peers-latency", reports)


def test_bars_are_only_of_queues_that_were_measured(reports):
    (bar,) = reports["peers"]["bars"]
    assert bar["value"] == 3
    assert bar["ok"]


def test_job_faster_than_the_return_of_its_enqueue_was_picked_up_at_once():
    since_end, since_begin = latencies([(1.0, 2.0), (3.0, 4.0)], {0: 1.5, 1: 4.25})
    assert since_end == [0.0, 250.0]
    assert since_begin == [500.0, 1_250.0]


def test_first_run_of_each_job_counts(tmp_path):
    (tmp_path / "seen").write_text("-1 0.5\n0 1.5\n0 2.5\n")
    (tmp_path / "first").write_text("3.5\n2.5\n")
    assert seen(tmp_path) == {-1: 0.5, 0: 1.5}
    assert first_noop(tmp_path) == 2.5


def test_nothing_has_run_where_nothing_is_written(tmp_path):
    assert seen(tmp_path) == {}
    assert first_noop(tmp_path) is None


def test_redis_answers_with_an_integer_or_an_error():
    assert integer(b":12\r\n") == 12
    with pytest.raises(OSError, match="unknown command"):
        integer(b"-ERR unknown command\r\n")


def test_each_queue_has_names_of_its_own():
    for names in ({p.name for p in PEERS}, {p.package for p in PEERS}):
        assert len(names) == len(PEERS)
