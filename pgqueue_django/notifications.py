"""NOTIFY, as a hint: what is sent, to which channel. Polling covers what gets lost."""

from typing import Final

DUE_CHANNEL: Final = "pgqueue_due"
"""The payload is the queue in which a job became due."""

SOON_CHANNEL: Final = "pgqueue_soon"
"""The payload is the queue in which a job will be due before workers look again."""

CANCEL_CHANNEL: Final = "pgqueue_cancel"
"""The payload is the ids of cancelled jobs that ran, with commas in between."""

HEARING_FACTOR: Final = 10
"""A worker that hears hints looks so much less often for what they may have missed."""
