"""What the page of one job shows of its JSON columns."""

from typing import Final

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString

from pgqueue_django.admin.pretty import pretty
from pgqueue_django.managers.job_details import JsonField
from pgqueue_django.stats.jobs import newest_errors, preview

# What a page shows of each field; the rest is a link away.
PREVIEW_CHARS: Final = 10_000


def show_json(job_id: int, field: JsonField, url: str) -> SafeString | None:
    """Return the beginning of a field as HTML; None when it has no value.

    Args:
        job_id: The job.
        field: The column.
        url: Where the whole of it can be fetched.
    """
    part = preview(job_id, field, PREVIEW_CHARS)
    if part is None:
        return None
    context = {
        "text": pretty(part.text),
        "shown": len(part.text),
        "cut": len(part.text) >= PREVIEW_CHARS
        and len(part.text.encode()) < part.whole_bytes,
        "whole_bytes": part.whole_bytes,
        "url": url,
    }
    return render_to_string("pgqueue_django/admin/json.html", context)


def show_errors(job_id: int, url: str) -> SafeString | None:
    """Return what went wrong in each attempt, newest first, as HTML; else None."""
    errors = newest_errors(job_id)
    if not errors:
        return None
    context = {"errors": errors, "url": url}
    return render_to_string("pgqueue_django/admin/errors.html", context)


def raw_url(site: str, job_id: int, field: JsonField) -> str:
    """Return where the whole of a field can be fetched."""
    return reverse(f"{site}:pgqueue_django_job_raw", args=[job_id, field])
