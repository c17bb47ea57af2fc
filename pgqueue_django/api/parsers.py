"""Request bodies: strict JSON, of bounded size, and nothing else."""

from collections.abc import Mapping
from typing import IO, Any, Final

from django.conf import settings
from django.utils.http import parse_header_parameters
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.parsers import BaseParser

from pgqueue_django import limits
from pgqueue_django.api.errors import InvalidRequest, TooLarge
from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.serialization import parse_body

# Arguments take up to three times their size when every character is escaped.
_MOST_BYTES: Final = 4 * limits.ARGUMENTS_BYTES


def body_limit() -> int:
    """Return how many bytes a body may have."""
    allowed = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return _MOST_BYTES if allowed is None else min(allowed, _MOST_BYTES)


class StrictJSONParser(BaseParser):
    """Reads JSON in UTF-8 by ``serialization.parse_body``."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the value of a body.

        Raises:
            InvalidRequest: It is not strict JSON.
            TooLarge: It has more bytes than ``body_limit()``.
            UnsupportedMediaType: It is compressed or in another charset.
        """
        request = (parser_context or {})["request"]
        _check_encoding(request.META, media_type or "")
        data = _read(stream, request.META.get("CONTENT_LENGTH") or "0")
        try:
            return parse_body(data)
        except InvalidJob as error:
            raise InvalidRequest.of(error) from None


def _check_encoding(meta: Mapping[str, Any], media_type: str) -> None:
    coding = meta.get("HTTP_CONTENT_ENCODING") or "identity"
    if coding.lower() != "identity":
        raise UnsupportedMediaType(
            media_type, "Compressed bodies are not supported: send plain JSON."
        )
    charset = parse_header_parameters(media_type)[1].get("charset", "utf-8")
    if charset.lower() not in {"utf-8", "utf8"}:
        raise UnsupportedMediaType(media_type, "JSON is read as UTF-8 only.")


def _read(stream: IO[Any], length: str) -> bytes:
    most = body_limit()
    if length.isdecimal() and int(length) > most:
        raise TooLarge(f"A body may have at most {most:,} bytes.")
    data: bytes = stream.read(most + 1)
    if len(data) > most:
        raise TooLarge(f"A body may have at most {most:,} bytes.")
    return data
