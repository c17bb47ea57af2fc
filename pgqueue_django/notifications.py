"""NOTIFY, as a hint: what is sent, to which channel. Polling covers what gets lost."""

from typing import Final

# The payload is the queue in which a job became due.
DUE_CHANNEL: Final = "pgqueue_due"

# The payload is the queue in which a job will be due before workers look again.
SOON_CHANNEL: Final = "pgqueue_soon"
