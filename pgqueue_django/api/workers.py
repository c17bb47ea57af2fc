"""``GET /workers``: which worker processes there are."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pgqueue_django.api.views import QueueView
from pgqueue_django.managers.workers import SeenWorker
from pgqueue_django.stats.workers import is_silent, workers


class WorkersView(QueueView):
    """``GET /workers``: the worker processes, as they were at their last beats."""

    required_permission = "pgqueue_django.view_workerprocess"

    def get(self, request: Request) -> Response:  # noqa: ARG002
        """Show them."""
        return Response({"workers": [_as_json(worker) for worker in workers()]})


def _as_json(worker: SeenWorker) -> dict[str, Any]:
    shown = worker._asdict()
    silence = shown.pop("silence")
    return {
        **shown,
        "silent_seconds": round(silence, 1),
        "silent": is_silent(silence),
    }
