"""Statements that wake workers."""

from typing import Final, LiteralString

# Params: channel, payload. Locks: the server's notification queue, at commit.
NOTIFY: Final[LiteralString] = "SELECT pg_notify(%(channel)s, %(payload)s)"

# NOTIFY as a transaction of its own, whose commit nobody waits for: what a crash takes
# away is a hint, and the flush would cost as much as the job's own commit. Nor does it
# end in an error where it has to wait, or where the queue of notifications is full.
NOTIFY_ALONE: Final[LiteralString] = """
SELECT
    set_config('synchronous_commit', 'off', true),
    set_config('lock_timeout', '0', true),
    CASE WHEN pg_notification_queue_usage() < 0.99
        THEN pg_notify(%(channel)s, %(payload)s)
    END
"""
