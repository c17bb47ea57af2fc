"""The tests of a shop: how a project tests what it enqueues."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from django.test import TestCase

from pgqueue_django.compat import TaskResultStatus
from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.testing import (
    assert_enqueued,
    enqueued,
    inline,
    refute_enqueued,
    run_jobs,
    travel,
)
from tests.testing import shop_tasks as shop


class ShopTests(TestCase):
    def setUp(self):
        shop.sent.clear()

    def test_enqueues_a_mail(self):
        shop.send_mail.enqueue("ada@example.org", orders=(1, 2))

        # A tuple is stored as a list; the assertion compares what is stored.
        assert_enqueued(
            shop.send_mail,
            args=["ada@example.org"],
            kwargs={"orders": (1, 2)},
            queue="mail",
            count=1,
        )
        refute_enqueued(shop.send_mail, args=["bob@example.org"])
        assert [job.queue for job in enqueued(shop.send_mail)] == ["mail"]

    def test_runs_what_was_enqueued(self):
        result = shop.send_mail.enqueue("ada@example.org", [1])

        run_jobs()

        result.refresh()
        assert result.return_value == "sent to ada@example.org"
        assert shop.sent == [("ada@example.org", [1])]
        assert enqueued() == []

    def test_runs_every_retry_without_its_wait(self):
        result = shop.send_at_last.enqueue("ada@example.org")

        run_jobs()

        result.refresh()
        assert (result.return_value, len(result.errors)) == (3, 2)

    def test_travels_from_one_retry_to_the_next(self):
        result = shop.send_at_last.enqueue("ada@example.org")

        run_jobs(until="due")
        result.refresh()
        assert (result.status, result.attempts) == (TaskResultStatus.READY, 1)

        travel(timedelta(hours=1))
        run_jobs(until="due")
        result.refresh()
        assert result.attempts == 2

    def test_sends_a_reminder_the_next_day(self):
        reminder = shop.send_mail.using(delay=timedelta(days=1))
        reminder.enqueue("ada@example.org", [])
        assert_enqueued(shop.send_mail, run_at=timedelta(days=1))

        assert run_jobs() == []
        travel(timedelta(days=1))
        run_jobs()

        assert shop.sent == [("ada@example.org", [])]

    def test_runs_jobs_as_they_are_enqueued(self):
        with inline():
            shop.place_order.enqueue("ada@example.org", 7)

        # The order's on_commit enqueued the mail, which ran too.
        assert Group.objects.filter(name="order 7").exists()
        assert shop.sent == [("ada@example.org", [7])]

    def test_inline_refuses_what_production_refuses(self):
        with inline(), pytest.raises(InvalidJob):
            shop.send_mail.enqueue("a NUL \0", [])

    def test_enqueues_once_the_view_has_committed(self):
        with self.captureOnCommitCallbacks(execute=True):
            transaction.on_commit(lambda: shop.send_mail.enqueue("ada", []))
            refute_enqueued(shop.send_mail)

        assert_enqueued(shop.send_mail, count=1)

    def test_a_database_error_of_a_handler_spoils_only_its_job(self):
        result = shop.place_twice.enqueue(7)

        run_jobs()

        result.refresh()
        assert result.status == TaskResultStatus.FAILED
        assert result.errors[0].exception_class.__name__ == "IntegrityError"
        assert not Group.objects.exists()

    def test_runs_the_jobs_of_one_queue(self):
        shop.send_mail.enqueue("ada@example.org", [])
        shop.look_up.enqueue(1)

        ran = run_jobs(queues=["mail"])

        assert [job.queue for job in ran] == ["mail"]
        assert_enqueued(shop.look_up, count=1)
