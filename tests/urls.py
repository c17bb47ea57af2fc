"""The URLs that the suite asks for."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", include("pgqueue_django.api.urls")),
]
