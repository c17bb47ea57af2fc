"""What a handler says of its job while it runs, as JSON text."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from pgqueue_django import limits
from pgqueue_django.exceptions import InvalidJob, InvalidJobType
from pgqueue_django.serialization import dump_metadata as dump
from pgqueue_django.texts import brief, clean_text

PROGRESS: Final = "_progress"
"""The key of a job's progress: an object with done, total, note and at."""

_RESERVED: Final = "_"


def dump_metadata(metadata: Mapping[str, Any]) -> str:
    """Write metadata as a JSON object.

    Raises:
        InvalidJob: It is no dict of JSON values, is too large, or has a key of the
            queue's own.
    """
    text = dump(metadata)
    for key in metadata:
        if key.startswith(_RESERVED):
            words = "is reserved: keys that begin with _ are the queue's own"
            raise InvalidJob("metadata", f"{brief(key)} {words}")
    return text


def dump_progress(done: object, total: object, note: object) -> str:
    """Write progress as metadata under its key.

    Raises:
        InvalidJob: ``done`` or ``total`` is no number of 0 or more, or ``note`` is no
            text.
    """
    if not isinstance(note, str):
        raise InvalidJobType("note", f"must be a str, not {type(note).__name__}")
    told = {
        "done": _amount("done", done),
        "total": None if total is None else _amount("total", total),
        "note": clean_text(note, limits.PROGRESS_NOTE_BYTES),
    }
    return dump({PROGRESS: told})


def _amount(field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidJobType(field, f"must be a number, not {type(value).__name__}")
    if not isfinite(value) or value < 0:
        raise InvalidJob(field, f"must be 0 or more, not {brief(value)}")
    return value
