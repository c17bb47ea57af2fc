"""What the helpers do at their edges; test_shop.py shows them at work."""

import pytest
from django.db import connection

from pgqueue_django import signals
from pgqueue_django.compat import TaskResultStatus, task_enqueued
from pgqueue_django.exceptions import UnknownTask
from pgqueue_django.testing import (
    assert_enqueued,
    enqueued,
    inline,
    refute_enqueued,
    run_jobs,
    travel,
)
from tests import factories
from tests.testing import shop_tasks as shop

pytestmark = pytest.mark.django_db


def test_a_difference_is_told():
    shop.send_mail.enqueue("ada", [1])
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(shop.send_mail, args=["ada", [2]], queue="post")
    message = str(caught.value)
    assert "args is ['ada', [1]], not ['ada', [2]]" in message
    assert "queue is 'mail', not 'post'" in message


def test_another_task_that_waits_is_told():
    shop.look_up.enqueue(1)
    with pytest.raises(AssertionError, match=r"of that task waits, but:\n.*look_up"):
        assert_enqueued(shop.send_mail)


def test_an_empty_queue_is_told():
    with pytest.raises(AssertionError, match="Nothing waits in the queue"):
        assert_enqueued(shop.send_mail)


def test_many_jobs_are_told_in_few_lines():
    for number in range(12):
        shop.look_up.enqueue(number)
    with pytest.raises(AssertionError, match="and 2 more"):
        assert_enqueued(shop.look_up, count=1)


def test_the_number_counts():
    shop.look_up.enqueue(1)
    assert len(assert_enqueued(shop.look_up, count=1)) == 1
    with pytest.raises(AssertionError, match=r"Expected 2 jobs of .*, found 1\."):
        assert_enqueued(shop.look_up, count=2)
    with pytest.raises(AssertionError, match=r"Expected no job of .*, found 1\."):
        refute_enqueued(shop.look_up)


def test_a_name_stands_for_its_task():
    shop.look_up.enqueue(1)
    assert assert_enqueued(shop.look_up.task_name) == enqueued(shop.look_up)
    with pytest.raises(UnknownTask):
        enqueued("tests.testing.shop_tasks.lookup")


def test_async_handlers_run():
    result = shop.look_up.enqueue(5)
    run_jobs()
    result.refresh()
    assert result.return_value == 5


def test_a_snoozing_job_waits():
    shop.wait_for_stock.enqueue()
    assert len(run_jobs()) == 1
    assert_enqueued(shop.wait_for_stock, count=1)
    travel(60)
    assert len(run_jobs()) == 1


def test_jobs_without_end_end_the_test():
    shop.again_and_again.enqueue()
    with pytest.raises(AssertionError, match="More than 5 attempts"):
        run_jobs(limit=5)


def test_a_timeout_ends_its_handler():
    result = shop.count_for_ever.enqueue()
    run_jobs()
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class.__name__ == "AttemptTimedOut"


def test_an_unknown_task_is_loud():
    factories.queued("tests.gone")
    with pytest.raises(UnknownTask):
        run_jobs()


def test_signals_are_those_of_a_worker():
    heard = []

    def hear(signal, **_):
        heard.append(signal)

    listened = [task_enqueued, signals.job_started, signals.attempts_recorded]
    for signal in listened:
        signal.connect(hear)
    try:
        with inline():
            shop.look_up.enqueue(1)
    finally:
        for signal in listened:
            signal.disconnect(hear)
    assert set(heard) == set(listened)
    assert len(heard) == 3


def test_all_is_undone_with_the_test():
    assert connection.in_atomic_block
    assert enqueued() == []


@pytest.mark.django_db(transaction=True)
def test_works_without_a_transaction_too():
    result = shop.place_twice.enqueue(1)
    run_jobs()
    result.refresh()
    assert result.status == TaskResultStatus.FAILED


def test_fixtures_give_the_helpers(pgqueue):
    shop.look_up.enqueue(1)
    pgqueue.assert_enqueued(shop.look_up, count=1)
    pgqueue.run_jobs()
    pgqueue.refute_enqueued(shop.look_up)


@pytest.mark.usefixtures("pgqueue_inline")
def test_a_fixture_runs_jobs_inline():
    result = shop.look_up.enqueue(3)
    result.refresh()
    assert result.return_value == 3
