"""Helpers for a project's own tests: what was enqueued, and running it in place.

They work in a plain ``TestCase``, on the test's own connection and in its transaction.
docs/testing.md shows them at work.
"""

from pgqueue_django.testing.asserting import assert_enqueued, enqueued, refute_enqueued
from pgqueue_django.testing.running import inline, run_jobs
from pgqueue_django.testing.travelling import travel

__all__ = [
    "assert_enqueued",
    "enqueued",
    "inline",
    "refute_enqueued",
    "run_jobs",
    "travel",
]
