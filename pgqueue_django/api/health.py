"""``GET /healthz``: for load balancers and orchestrators."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from pgqueue_django.api.transactions import outside_transactions
from pgqueue_django.stats.health import check_health


def _answer(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - a view's signature
    health = check_health()
    if health.ok:
        return JsonResponse({"status": "ok"})
    return JsonResponse(
        {"status": "unavailable", "reason": health.reason},
        status=503,
        headers={"Retry-After": "2"},
    )


# Plain Django: what a project makes of DRF's defaults must not keep it from answering.
healthz: Callable[..., Any] = outside_transactions(
    login_not_required(never_cache(require_safe(_answer)))
)
"""Answer 200 when the database answers and has the job table; otherwise 503.

The answer comes within 2 s, whatever the database does. It needs no login, reads no
session, and tells nothing but one of a few fixed reasons.
"""
