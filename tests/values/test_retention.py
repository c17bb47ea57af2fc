"""``PGQUEUE["RETENTION"]`` and ``PGQUEUE["QUEUE_RETENTION"]``."""

from datetime import timedelta

import pytest

from pgqueue_django.conf import read
from pgqueue_django.exceptions import InvalidSettings
from pgqueue_django.states import FINISHED

WEEK = 7 * 86_400


def test_by_default_dead_jobs_stay_for_ever_and_others_for_a_week():
    kept = {str(state): read({}).retention_of("q", state) for state in FINISHED}

    assert kept == {"succeeded": WEEK, "cancelled": WEEK, "dead": None}


def test_what_is_left_out_has_its_default():
    settings = read(
        {
            "RETENTION": {"dead": timedelta(days=30), "succeeded": 60},
            "QUEUE_RETENTION": {"mail": {"succeeded": None}, "x": {"dead": 0.5}},
        }
    )

    def kept(queue: str) -> list[float | None]:
        return [settings.retention_of(queue, s) for s in sorted(FINISHED)]

    assert kept("default") == [WEEK, 30 * 86_400, 60]
    assert kept("mail") == [WEEK, 30 * 86_400, None]
    assert kept("x") == [WEEK, 0.5, 60]


WRONG: list[object] = [-1, "7", True, float("nan"), float("inf"), 1e12, []]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"RETENTION": 5}, "PGQUEUE['RETENTION'] must be a dict by state, not 5"),
        (
            {"RETENTION": {"done": 5}},
            "PGQUEUE['RETENTION'] has no state 'done'; known are cancelled, dead",
        ),
        ({"RETENTION": {"running": 5}}, "PGQUEUE['RETENTION'] has no state 'running'"),
        *(
            (
                {"RETENTION": {"dead": value}},
                "PGQUEUE['RETENTION']['dead'] must be seconds or a timedelta",
            )
            for value in WRONG
        ),
        ({"RETENTION": {"dead": timedelta(-1)}}, "PGQUEUE['RETENTION']['dead'] must"),
        ({"QUEUE_RETENTION": []}, "PGQUEUE['QUEUE_RETENTION'] must be a dict by queue"),
        ({"QUEUE_RETENTION": {"": {}}}, "PGQUEUE['QUEUE_RETENTION'] must be by names"),
        (
            {"QUEUE_RETENTION": {"mail": 5}},
            "PGQUEUE['QUEUE_RETENTION']['mail'] must be a dict by state",
        ),
        (
            {"QUEUE_RETENTION": {"mail": {"dead": -5}}},
            "PGQUEUE['QUEUE_RETENTION']['mail']['dead'] must be seconds",
        ),
        (
            {"QUEUE_RETENTION": {"mail": {"ded": 5}}},
            "PGQUEUE['QUEUE_RETENTION']['mail'] has no state 'ded'",
        ),
    ],
)
def test_an_error_names_the_key(wrong, message):
    with pytest.raises(InvalidSettings) as caught:
        read(wrong)

    assert str(caught.value).startswith(message)
