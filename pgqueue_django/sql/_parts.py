"""Parts that statements of several modules share."""

from typing import Final, LiteralString

LIVE: Final[LiteralString] = "('scheduled', 'queued', 'unserved', 'running')"

GIVE_LEASE_UP: Final[LiteralString] = """
    lease_token = NULL,
    lease_expires_at = NULL,"""

# What a failed attempt leaves in the job's history; the oldest gives way.
REMEMBER_FAILURE: Final[LiteralString] = """
    worker = '',
    errors = CASE WHEN jsonb_array_length(job.errors) < 20
        THEN job.errors ELSE job.errors - 0 END
        || jsonb_build_array(jsonb_build_object(
            'attempt', job.attempts, 'at', statement_timestamp(), 'worker', job.worker
        ) || held.detail)"""
