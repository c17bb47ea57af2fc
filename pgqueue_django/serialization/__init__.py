"""Arguments and results as strict JSON text, and back.

JSON has fewer types than Python, so tuples and other sequences come back as lists,
mappings as dicts, and subclasses of str, int and float as their plain values. Whatever
would come back changed otherwise, or that PostgreSQL cannot store, is refused by the
path of where it is (``kwargs.items[2].note``).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pgqueue_django import limits
from pgqueue_django.exceptions import InvalidJobType
from pgqueue_django.serialization.reading import parse_body, read_stored
from pgqueue_django.serialization.writing import write
from pgqueue_django.texts import preview

__all__ = [
    "dump_args",
    "dump_kwargs",
    "dump_metadata",
    "dump_result",
    "load_args",
    "load_kwargs",
    "load_metadata",
    "load_result",
    "parse_body",
    "preview",
]


def dump_args(args: Sequence[object], field: str = "args") -> str:
    """Write positional arguments as a JSON list.

    Args:
        args: A list or tuple of None, bool, int, float, str, lists and dicts of these.
        field: The name that an error gives to the whole.

    Raises:
        InvalidJobType: A value, or a key, has a type that cannot be stored.
        InvalidJob: A text has a NUL or a lone surrogate, a number is not finite or has
            more than ``limits.NUMBER_DIGITS`` digits, the nesting is deeper than
            ``limits.JSON_DEPTH`` (a cycle too), a key is there twice, or the text
            takes more than ``limits.ARGUMENTS_BYTES``.
    """
    if not _is_list(args):
        raise _not_a("list or tuple", args, field)
    return write(args, field, limits.ARGUMENTS_BYTES) if args else "[]"


def dump_kwargs(kwargs: Mapping[str, object], field: str = "kwargs") -> str:
    """Write keyword arguments as a JSON object.

    Args:
        kwargs: A dict with str keys and values as in ``dump_args``.
        field: The name that an error gives to the whole.

    Raises:
        InvalidJobType: As in ``dump_args``.
        InvalidJob: As in ``dump_args``.
    """
    if not isinstance(kwargs, Mapping):
        raise _not_a("dict", kwargs, field)
    return write(kwargs, field, limits.ARGUMENTS_BYTES) if kwargs else "{}"


def dump_result(value: object) -> str:
    """Write what a handler returned.

    Args:
        value: A value as in ``dump_args``. Its text takes at most
            ``limits.RESULT_BYTES``.

    Raises:
        InvalidJobType: As in ``dump_args``, with ``result`` as the field.
        InvalidJob: As in ``dump_args``, with ``result`` as the field.
    """
    return "null" if value is None else write(value, "result", limits.RESULT_BYTES)


def dump_metadata(metadata: Mapping[str, object]) -> str:
    """Write what a handler says of its job as a JSON object.

    Args:
        metadata: As in ``dump_kwargs``. Its text takes at most
            ``limits.METADATA_BYTES``.

    Raises:
        InvalidJobType: As in ``dump_args``, with ``metadata`` as the field.
        InvalidJob: As in ``dump_args``, with ``metadata`` as the field.
    """
    if not isinstance(metadata, Mapping):
        raise _not_a("dict", metadata, "metadata")
    return write(metadata, "metadata", limits.METADATA_BYTES)


def load_args(text: str) -> list[Any]:
    """Read stored positional arguments.

    Args:
        text: The column as text. Raw SQL can have put anything into it.

    Raises:
        InvalidJob: The text is no JSON list, is nested too deep, or has a number that
            is too long or too large.
    """
    if text == "[]":
        return []
    value = read_stored(text, "args")
    if type(value) is not list:
        raise _not_a("list", value, "args")
    return value


def load_kwargs(text: str) -> dict[str, Any]:
    """Read stored keyword arguments.

    Args:
        text: The column as text. Raw SQL can have put anything into it.

    Raises:
        InvalidJob: The text is no JSON object, or as in ``load_args``.
    """
    if text == "{}":
        return {}
    value = read_stored(text, "kwargs")
    if type(value) is not dict:
        raise _not_a("dict", value, "kwargs")
    return value


def load_metadata(text: str) -> dict[str, Any]:
    """Read what a handler has said of its job.

    Args:
        text: The column as text. Raw SQL can have put anything into it.

    Raises:
        InvalidJob: The text is no JSON object, or as in ``load_args``.
    """
    value = read_stored(text, "metadata")
    if type(value) is not dict:
        raise _not_a("dict", value, "metadata")
    return value


def load_result(text: str) -> Any:
    """Read a stored result.

    Args:
        text: The column as text. Raw SQL can have put anything into it.

    Raises:
        InvalidJob: The text is no JSON, or as in ``load_args``.
    """
    return read_stored(text, "result")


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(
        value, (str, bytes, bytearray, memoryview)
    )


def _not_a(wanted: str, value: object, field: str) -> InvalidJobType:
    return InvalidJobType(field, f"must be a {wanted}, not {type(value).__name__}")
