"""A whole JSON column as a download."""

from collections.abc import Iterator
from typing import cast, get_args

from django.http import Http404, HttpRequest, HttpResponseBase, StreamingHttpResponse

from pgqueue_django.managers.job_details import JsonField
from pgqueue_django.stats.jobs import parse_id, whole


def raw_json(
    request: HttpRequest,  # noqa: ARG001 - a view's signature
    job_id: str,
    field: str,
) -> HttpResponseBase:
    """Send a field's JSON text as it is stored, in parts, as a file.

    Raises:
        Http404: There is no such field or job, or it has no value.
    """
    id_ = parse_id(job_id)
    if id_ is None or field not in get_args(JsonField):
        raise Http404
    parts = whole(id_, cast("JsonField", field))
    first = next(parts, None)
    if first is None:
        raise Http404

    def texts() -> Iterator[bytes]:
        yield first.text.encode()
        for part in parts:
            yield part.text.encode()

    return StreamingHttpResponse(
        texts(),
        content_type="application/json",
        headers={
            "Content-Disposition": f'attachment; filename="job-{id_}-{field}.json"',
            "Content-Length": str(first.whole_bytes),
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        },
    )
