"""URLs: the admin, the queue's API, and a first page that leads to them."""

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path


def index(request: HttpRequest) -> HttpResponse:
    return render(request, "shop/index.html")


urlpatterns = [
    path("", index),
    path("admin/", admin.site.urls),
    path("api/", include("pgqueue_django.api.urls")),
]
