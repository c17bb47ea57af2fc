"""Strict JSON text from Python values.

The standard library's encoder turns keys of other types into text, writes NaN, and
recurses without a limit of its own, so that values would have to be walked before it.
One walk does both here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from json.encoder import encode_basestring
from math import isfinite
from typing import Any, Final

from pgqueue_django import limits
from pgqueue_django.exceptions import InvalidJob, InvalidJobType
from pgqueue_django.serialization.hints import hint
from pgqueue_django.texts import brief

_INTEGER_END: Final = 10**limits.NUMBER_DIGITS
_STR_ONLY: Final = frozenset({str})
_BYTES: Final = (bytes, bytearray, memoryview)
_PATH_STEPS: Final = 8


def write(value: object, field: str, max_bytes: int) -> str:
    """Write a value as compact JSON text.

    Args:
        value: Any object.
        field: The name that an error gives to the whole value.
        max_bytes: The most bytes that the text may take as UTF-8. It bounds the work
            too, for shared and endless structures.

    Raises:
        InvalidJobType: A value, or a key, has a type that cannot be stored.
        InvalidJob: Anything else is wrong with it.
    """
    walk = _Walk(field, max_bytes)
    try:
        text = _WRITERS.get(type(value), _write_other)(value, walk)
    except _Refused as refused:
        raise refused.error(field + refused.path(), refused.message) from None
    except RecursionError:
        raise walk.too_deep() from None
    if len(text if text.isascii() else text.encode()) > max_bytes:
        raise walk.too_large()
    return text


class _Walk:
    """Where a walk is: how deep, how many bytes are left at best, which keys it met."""

    __slots__ = ("_field", "_max_bytes", "depth", "names", "room")

    def __init__(self, field: str, max_bytes: int) -> None:
        self._field = field
        self._max_bytes = max_bytes
        self.depth = 0
        self.room = max_bytes
        self.names: dict[str, str] = {}

    def enter(self, count: int) -> None:
        """Go one level down, into a container of ``count`` members."""
        self.depth += 1
        if self.depth > limits.JSON_DEPTH:
            raise self.too_deep()
        self.room -= count + 1
        if self.room < 0:
            raise self.too_large()

    def too_deep(self) -> InvalidJob:
        most = limits.JSON_DEPTH
        return InvalidJob(self._field, f"is nested deeper than {most} levels")

    def too_large(self) -> InvalidJob:
        most = f"{self._max_bytes:,}"
        words = f"takes more than {most} bytes as JSON; store it and pass a reference"
        return InvalidJob(self._field, words)


class _Refused(Exception):
    """A value is refused; the way out of the walk notes where it was."""

    def __init__(self, message: str, error: type[InvalidJob] = InvalidJob) -> None:
        super().__init__(message)
        self.message = message
        self.error = error
        self.steps: list[str | int] = []

    def path(self) -> str:
        steps = self.steps[::-1]
        far = "…" if len(steps) > _PATH_STEPS else ""
        return "".join(map(_step, steps[:_PATH_STEPS])) + far


def _step(step: str | int) -> str:
    if isinstance(step, str) and step.isidentifier() and len(step) <= limits.TASK_CHARS:
        return f".{step}"
    return f"[{brief(step)}]"


def _write_text(text: str, walk: _Walk) -> str:
    walk.room -= len(text)
    if walk.room < 0:
        raise walk.too_large()
    return _quoted(text)


def _quoted(text: str) -> str:
    if "\0" in text:
        raise _Refused("has a NUL character (U+0000), which PostgreSQL cannot store")
    if not text.isascii() and _has_surrogate(text):
        raise _Refused("has a lone surrogate, which is no character")
    return encode_basestring(text)


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _write_integer(number: int, walk: _Walk) -> str:
    if not -_INTEGER_END < number < _INTEGER_END:
        raise _Refused(f"has more than {limits.NUMBER_DIGITS:,} digits; pass a str")
    try:
        text = repr(number)
    except ValueError as error:
        # sys.set_int_max_str_digits() can be lower than our own limit.
        raise _Refused(str(error)) from None
    walk.room -= len(text)
    if walk.room < 0:
        raise walk.too_large()
    return text


def _write_float(number: float, walk: _Walk) -> str:
    if not isfinite(number):
        raise _Refused(f"{number!r} is no JSON number; pass None or a str")
    text = repr(number)
    if "e" in text:
        text = _positional(text)
    walk.room -= len(text)
    if walk.room < 0:
        raise walk.too_large()
    return text


def _positional(text: str) -> str:
    """Write out an exponent, as jsonb does.

    jsonb gives 1e+23 back as an integer, which no longer equals the float, so the
    point is written too.
    """
    digits = format(Decimal(text), "f")
    return digits if "." in digits else f"{digits}.0"


def _write_null(_value: None, _walk: _Walk) -> str:
    return "null"


def _write_boolean(value: bool, _walk: _Walk) -> str:  # noqa: FBT001
    return "true" if value else "false"


def _write_array(items: Sequence[object], walk: _Walk) -> str:
    walk.enter(len(items))
    texts: list[str] = []
    try:
        for item in items:
            writer = _WRITERS.get(type(item), _write_other)
            texts.append(writer(item, walk))
    except _Refused as refused:
        refused.steps.append(len(texts))
        raise
    walk.depth -= 1
    return f"[{','.join(texts)}]"


def _write_object(items: dict[str, object], walk: _Walk) -> str:
    if not _STR_ONLY.issuperset(map(type, items)):
        items = _plain_keys(items)
    walk.enter(len(items))
    texts: list[str] = []
    names = walk.names
    key = ""
    try:
        for key, item in items.items():
            name = names.get(key) or _new_name(key, names)
            walk.room -= len(name)
            writer = _WRITERS.get(type(item), _write_other)
            texts.append(name + writer(item, walk))
    except _Refused as refused:
        refused.steps.append(key)
        raise
    walk.depth -= 1
    return f"{{{','.join(texts)}}}"


def _new_name(key: str, names: dict[str, str]) -> str:
    names[key] = name = f"{_quoted(key)}:"
    return name


_WRITERS: Final[dict[type, Callable[[Any, _Walk], str]]] = {
    str: _write_text,
    int: _write_integer,
    float: _write_float,
    bool: _write_boolean,
    type(None): _write_null,
    list: _write_array,
    tuple: _write_array,
    dict: _write_object,
}


def _write_other(value: object, walk: _Walk) -> str:
    plain = _plain(value)
    return _WRITERS[type(plain)](plain, walk)


def _plain(value: object) -> object:
    """Return the value of a subclass or look-alike as one of the types above.

    The base classes' own methods are asked, since a subclass can answer otherwise.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Mapping):
        return _plain_keys(value)
    if isinstance(value, Sequence) and not isinstance(value, _BYTES):
        return _bounded(value)
    raise _Refused(f"Unsupported type: {type(value)}; {hint(value)}", InvalidJobType)


def _bounded(items: Iterable[object]) -> list[object]:
    return list(islice(items, limits.ARGUMENTS_BYTES))


def _plain_keys(mapping: Mapping[Any, object]) -> dict[str, object]:
    plain: dict[str, object] = {}
    for key, item in islice(mapping.items(), limits.ARGUMENTS_BYTES):
        if not isinstance(key, str):
            words = f"has the key {brief(key)} of type {type(key).__name__}"
            raise _Refused(f"{words}; keys must be str", InvalidJobType)
        text = str.__str__(key)
        if text in plain:
            raise _Refused(f"has the key {brief(text)} twice")
        plain[text] = item
    return plain
