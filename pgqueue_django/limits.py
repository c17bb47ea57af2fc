"""Bounds on what a job row may hold, shared by validation, model and statements."""

from typing import Final

QUEUE_CHARS: Final = 100
TASK_CHARS: Final = 200
IDEMPOTENCY_KEY_CHARS: Final = 255
UNIQUE_KEY_CHARS: Final = 255
WORKER_CHARS: Final = 200

DEFAULT_QUEUE: Final = "default"

PRIORITY_MIN: Final = -100
PRIORITY_MAX: Final = 100
DEFAULT_PRIORITY: Final = 0

MAX_ATTEMPTS_MAX: Final = 10_000
DEFAULT_MAX_ATTEMPTS: Final = 5

# One year of seconds bounds a handler's time limit; a hundred years bound a delay, so
# that no sum with the database's clock leaves the range of Python's datetime.
TIMEOUT_SECONDS_MAX: Final = 366 * 86_400
DELAY_SECONDS_MAX: Final = 100 * 366 * 86_400

# 1 MiB keeps a job a message and not a file store; TOAST would take up to 1 GB.
ARGUMENTS_BYTES: Final = 1024 * 1024
RESULT_BYTES: Final = 1024 * 1024

# Metadata is written again and again while a job runs, each time as a whole.
METADATA_BYTES: Final = 64 * 1024
PROGRESS_NOTE_BYTES: Final = 1024

# json.loads recurses once a level and refuses integers of more than 4,300 digits;
# both bounds stay far below what Python and PostgreSQL accept.
JSON_DEPTH: Final = 100
NUMBER_DIGITS: Final = 1_000

# A job keeps its newest errors. 20 of at most about 10 KiB bound a row's history to
# some 200 KiB.
ERRORS_KEPT: Final = 20
ERROR_CLASS_BYTES: Final = 256
ERROR_MESSAGE_BYTES: Final = 1024
ERROR_TRACEBACK_BYTES: Final = 8 * 1024
