"""Handlers that keep Python's global interpreter lock, or do not want to end."""

import os
import re
from pathlib import Path

from pgqueue_django import task
from pgqueue_django.exceptions import AttemptTimedOut
from tests.worker.handlers import touch


@task(max_attempts=5, on_exception={AttemptTimedOut: "give_up"})
def match_catastrophically(folder: str) -> None:
    """Keep the lock in one call, so that no other thread runs."""
    touch(Path(folder, f"job.held-by-{os.getpid()}"))
    re.match("(a+)+$", "a" * 50 + "!")


@task
def raise_to_a_huge_power(folder: str) -> None:
    """Do the same in another part of C code."""
    touch(Path(folder, f"job.held-by-{os.getpid()}"))
    pow(7, 7**12)
