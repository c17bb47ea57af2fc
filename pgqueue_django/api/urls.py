"""Where the endpoints are, relative to where the project mounts them."""

from django.urls import path

from pgqueue_django.api.health import healthz
from pgqueue_django.api.metrics import MetricsView
from pgqueue_django.api.views import CancelView, JobsView, JobView
from pgqueue_django.api.workers import WorkersView

app_name = "pgqueue_api"

urlpatterns = [
    path("jobs", JobsView.as_view(), name="jobs"),
    path("jobs/<str:job_id>", JobView.as_view(), name="job"),
    path("jobs/<str:job_id>/cancel", CancelView.as_view(), name="job-cancel"),
    path("workers", WorkersView.as_view(), name="workers"),
    path("metrics", MetricsView.as_view(), name="metrics"),
    path("healthz", healthz, name="healthz"),
]
