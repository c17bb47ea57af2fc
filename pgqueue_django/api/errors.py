"""What went wrong, as a status and a JSON object."""

from collections.abc import Mapping
from typing import Any, Final

from django.core.exceptions import RequestDataTooBig
from django.db import Error
from django.http import UnreadablePostError
from rest_framework import status
from rest_framework.exceptions import APIException
from rest_framework.response import Response
from rest_framework.views import exception_handler

from pgqueue_django.db import is_connection_error
from pgqueue_django.exceptions import (
    IdempotencyConflict,
    InvalidJob,
    JobFinished,
    JobNotFound,
)

Errors = Mapping[str, list[str]]
"""Messages by the path of the field that they are about."""


class InvalidRequest(APIException):
    """The request has wrong fields, all of which it names.

    Args:
        errors: At least one.
    """

    status_code = status.HTTP_400_BAD_REQUEST
    default_code = "invalid"

    def __init__(self, errors: Errors) -> None:
        super().__init__("The request is not valid: see errors.")
        self.errors = errors

    @classmethod
    def of(cls, error: InvalidJob) -> "InvalidRequest":
        """Return it for one wrong value."""
        return cls({error.field: [error.message]})


class TooLarge(APIException):
    """The body is larger than this server reads."""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_code = "too_large"
    default_detail = "The body is too large."


class LengthRequired(APIException):
    """The body comes in chunks, which Django does not read under WSGI."""

    status_code = status.HTTP_411_LENGTH_REQUIRED
    default_code = "length_required"
    default_detail = "Send the body with a Content-Length, not in chunks."


class Busy(APIException):
    """Somebody else holds the row's lock for longer than a request should wait."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_code = "busy"
    default_detail = "The job is locked by another transaction. Try again."


class Unavailable(APIException):
    """The database cannot be used now."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_code = "unavailable"
    default_detail = "The database cannot be reached. Try again."


_OURS: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (JobNotFound, status.HTTP_404_NOT_FOUND, "not_found"),
    (JobFinished, status.HTTP_409_CONFLICT, "already_finished"),
    (IdempotencyConflict, status.HTTP_422_UNPROCESSABLE_ENTITY, "idempotency_conflict"),
)


def answer_to(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return the response to an exception of a view; None makes it a 500."""
    for kind, status_code, code in _OURS:
        if isinstance(error, kind):
            body = {"code": code, "detail": str(error)} | _more(error)
            return Response(body, status=status_code)
    response = exception_handler(_as_apis(error), context)
    if response is not None:
        response.data = _body(_as_apis(error), response.data)
    return response


def _as_apis(error: Exception) -> Exception:
    if isinstance(error, RequestDataTooBig):
        return TooLarge()
    if isinstance(error, UnreadablePostError):
        return InvalidRequest({"body": ["could not be read to its end"]})
    if isinstance(error, Error) and is_connection_error(error):
        return Unavailable()
    return error


def _more(error: Exception) -> dict[str, object]:
    if isinstance(error, IdempotencyConflict):
        return {"job_id": error.job_id}
    return {}


def _body(error: Exception, data: Any) -> dict[str, object]:
    """Return DRF's answer in this API's form."""
    detail = data.get("detail") if isinstance(data, dict) else None
    code = getattr(detail, "code", None) or "error"
    body: dict[str, object] = {"code": str(code), "detail": str(detail or data)}
    if isinstance(error, InvalidRequest):
        body["errors"] = error.errors
    return body
