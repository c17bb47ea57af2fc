"""Statements that ask whether the queue can be used."""

from typing import Final, LiteralString

# Params: none. Rows: whether the job table is where the search path leads.
# Locks: none, so that no migration and no LOCK TABLE makes it wait.
TABLE_IS_THERE: Final[LiteralString] = """
SELECT to_regclass('pgqueue_job') IS NOT NULL
"""
