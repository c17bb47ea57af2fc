"""What to pass instead of a value that cannot be stored."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Final
from uuid import UUID

from django.db.models import Model, QuerySet
from django.utils.functional import Promise

_HINTS: Final[Mapping[type | tuple[type, ...], str]] = {
    Model: "pass its primary key, and fetch it in the task",
    QuerySet: "pass a list of primary keys, and fetch them in the task",
    (date, time): "pass its .isoformat()",
    timedelta: "pass its .total_seconds()",
    (Decimal, UUID, PurePath): "pass str() of it",
    Promise: "pass str() of it, in the language wanted",
    (bytes, bytearray, memoryview): "decode it, or pass it as base64 text",
    (set, frozenset): "pass a list of its members",
    Enum: "pass its .value",
}


def hint(value: object) -> str:
    """Return advice, in the imperative, for a value of an unsupported type."""
    for kinds, words in _HINTS.items():
        if isinstance(value, kinds):
            return words
    if is_dataclass(value):
        return "pass dataclasses.asdict() of it"
    if callable(value):
        return "pass its name, or call it first"
    return "pass None, bool, int, float, str, or lists and dicts of these"
