"""``GET /metrics``: for Prometheus."""

from typing import Any, Final

from django.contrib.auth.models import AnonymousUser
from django.http import HttpResponse
from django.utils.crypto import constant_time_compare
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from pgqueue_django.api.permissions import authentication_classes
from pgqueue_django.api.views import QueueView
from pgqueue_django.conf import get_settings

_PERMISSION: Final = "pgqueue_django.view_counter"


class Scraper(AnonymousUser):
    """Who has ``PGQUEUE["METRICS_TOKEN"]``: may see the figures, and nothing else."""

    @property
    def is_authenticated(self) -> Any:
        """Tell that this is somebody."""
        return True

    def has_perm(self, perm: str, obj: object = None) -> bool:  # noqa: ARG002
        """Tell whether it is the permission to see the figures."""
        return perm == _PERMISSION


class ScraperAuthentication(BaseAuthentication):
    """Knows a scraper by ``Authorization: Bearer`` and the token in the settings.

    It asks no database, so that a scraper learns of one that is down.
    """

    def authenticate(self, request: Request) -> tuple[Scraper, None] | None:
        """Return the scraper, or None when it is somebody else."""
        token = get_settings().metrics_token
        given = get_authorization_header(request)
        if token and constant_time_compare(given, f"Bearer {token}"):
            return Scraper(), None
        return None

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002
        """Say how to do better."""
        return "Bearer"


class NotInstalled(APIException):
    """There is no library to write the metrics with."""

    status_code = 501
    default_code = "not_installed"
    default_detail = (
        "Metrics need prometheus-client: install pgqueue-django[prometheus]."
    )


class MetricsView(QueueView):
    """``GET /metrics``: figures in Prometheus' text format, or in OpenMetrics.

    They are of all processes, and at most a few seconds old. While the database gives
    none the answer is 200 with ``pgqueue_up 0``.
    """

    required_permission = _PERMISSION
    authentication_classes = [ScraperAuthentication, *authentication_classes()]  # noqa: RUF012

    def get(self, request: Request) -> HttpResponse:
        """Return the metrics."""
        try:
            from pgqueue_django.contrib.prometheus import exposition
        except ImportError as error:
            raise NotInstalled from error
        text, content_type = exposition(request.headers.get("accept", ""))
        return HttpResponse(text, content_type=content_type)
