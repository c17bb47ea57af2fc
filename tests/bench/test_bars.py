from pgqueue_django.bench import bars


def test_bar_of_at_least_is_met_from_its_value_on():
    assert bars.THROUGHPUT.judge(0.7).ok
    assert not bars.THROUGHPUT.judge(0.69).ok


def test_bar_of_at_most_is_met_up_to_its_value():
    assert bars.LATENCY_P99.judge(4.0).ok
    assert not bars.LATENCY_P99.judge(4.1).ok


def test_judged_bar_has_the_four_keys_of_the_output():
    judged = bars.IDLE_QUERIES.judge(0.5).as_json()
    assert judged == {
        "name": "queries/s of an idle process, at most",
        "value": 0.5,
        "bar": 1.0,
        "ok": True,
    }


def test_every_aim_is_beyond_its_bar():
    every = [each for each in vars(bars).values() if isinstance(each, bars.Bar)]
    assert len(every) > 20
    for each in every:
        if each.aim is not None:
            assert (each.aim > each.bound) == each.at_least, each.name
