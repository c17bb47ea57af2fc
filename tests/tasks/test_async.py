"""Enqueueing from coroutines."""

import asyncio
from itertools import repeat

import pytest
from asgiref.sync import async_to_sync

from pgqueue_django.models import Job
from tests.tasks import handlers


@pytest.mark.django_db(transaction=True)
def test_coroutines_go_on_while_an_enqueue_waits_for_the_database(connect, watcher):
    other = connect()

    async def until_it_waits():
        async with asyncio.timeout(10):
            for _ in repeat(None):
                if watcher.blocked():
                    return
                await asyncio.sleep(0)

    async def enqueue_beside_a_lock():
        waiting = asyncio.create_task(handlers.add_async.aenqueue(1, second=2))
        try:
            await until_it_waits()
            assert not waiting.done()
        finally:
            other.execute("COMMIT")
        return await waiting

    other.execute("BEGIN")
    other.execute("LOCK TABLE pgqueue_job IN EXCLUSIVE MODE")
    result = async_to_sync(enqueue_beside_a_lock)()

    assert Job.objects.get().id == int(result.id)
