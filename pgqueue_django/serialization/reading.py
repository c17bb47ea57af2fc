"""Python values from JSON text that may be hostile or broken."""

import re
from json import JSONDecodeError, JSONDecoder
from math import isfinite
from typing import Any, Final

from pgqueue_django import limits
from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.texts import brief

_BOM: Final = b"\xef\xbb\xbf"

# Matches up to the next bracket outside of strings. A string that never ends is taken
# to the end of the text, and no repeat gives back what it took: one pass, whatever the
# text is.
_BETWEEN_BRACKETS: Final = re.compile(
    r'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))++', re.DOTALL
)


def read_stored(text: str, field: str) -> Any:
    """Read JSON text from the job table.

    Args:
        text: JSON text. A key that is there twice has its last value, as in jsonb.
        field: The name that an error gives to the whole.

    Raises:
        InvalidJob: The text is no JSON, is nested deeper than ``limits.JSON_DEPTH``,
            or has a number of more than ``limits.NUMBER_DIGITS`` characters or beyond
            a float's range.
    """
    # A short text cannot hold a long integer, and int() alone is much faster.
    short = len(text) <= limits.NUMBER_DIGITS
    return _read(text, field, _SHORT if short else _STORED)


def parse_body(data: bytes, field: str = "body") -> Any:
    """Read the JSON body of a request, strictly.

    Args:
        data: The body: UTF-8 without a byte order mark. Its size is the caller's to
            bound; the time taken is linear in it.
        field: The name that an error gives to the whole.

    Returns:
        The value. Its texts are unchecked: the writers refuse NULs and surrogates.

    Raises:
        InvalidJob: It is no UTF-8 or no JSON (NaN and Infinity are not), has a key
            twice in one object, is nested deeper than ``limits.JSON_DEPTH``, or has a
            number of more than ``limits.NUMBER_DIGITS`` characters or beyond a float's
            range.
    """
    if data.startswith(_BOM):
        raise InvalidJob(field, "must be UTF-8 without a byte order mark")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidJob(field, f"is not UTF-8 (at byte {error.start})") from None
    return _read(text, field, _BODY)


def _read(text: str, field: str, decoder: JSONDecoder) -> Any:
    if _is_too_deep(text):
        raise _too_deep(field)
    try:
        return decoder.decode(text)
    except JSONDecodeError as error:
        raise InvalidJob(field, f"is not valid JSON: {error}") from None
    except ValueError as error:
        raise InvalidJob(field, str(error)) from None
    except RecursionError:
        raise _too_deep(field) from None


def _too_deep(field: str) -> InvalidJob:
    return InvalidJob(field, f"is nested deeper than {limits.JSON_DEPTH} levels")


def _is_too_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= limits.JSON_DEPTH:
        return False
    depth = 0
    for bracket in _BETWEEN_BRACKETS.sub("", text):
        depth += 1 if bracket in "[{" else -1
        if depth > limits.JSON_DEPTH:
            return True
    return False


def _integer(text: str) -> int:
    _check_length(text)
    return int(text)


def _float(text: str) -> float:
    _check_length(text)
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"has the number {brief(text)}, which is too large")
    return number


def _check_length(text: str) -> None:
    if len(text) - text.startswith("-") > limits.NUMBER_DIGITS:
        raise ValueError(f"has a number of more than {limits.NUMBER_DIGITS:,} digits")


def _constant(text: str) -> None:
    raise ValueError(f"has {text}, which is no JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) < len(pairs):
        raise ValueError(f"has the key {brief(_repeated(pairs))} twice in one object")
    return plain


def _repeated(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            break
        seen.add(key)
    return key


_SHORT: Final = JSONDecoder(parse_float=_float, parse_constant=_constant)
_STORED: Final = JSONDecoder(
    parse_int=_integer, parse_float=_float, parse_constant=_constant
)
_BODY: Final = JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=_float,
    parse_constant=_constant,
)
