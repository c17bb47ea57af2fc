"""Who may use the API: closed by default, whatever the project's defaults are."""

import base64

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from rest_framework.authentication import SessionAuthentication
from rest_framework.settings import api_settings

from pgqueue_django.api.permissions import authentication_classes
from tests import factories
from tests.api.conftest import ApiClient

pytestmark = pytest.mark.django_db

ENDPOINTS = {
    "add_job": lambda client, _: client.send({"task": "tests.api.echo"}),
    "view_job": lambda client, id_: client.get(f"/api/jobs/{id_}"),
    "change_job": lambda client, id_: client.send("", f"/api/jobs/{id_}/cancel"),
}


@pytest.mark.parametrize("name", ENDPOINTS)
def test_strangers_are_asked_who_they_are(name):
    response = ENDPOINTS[name](ApiClient(), factories.queued().id)
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Token"
    assert response.json()["code"] == "not_authenticated"


@pytest.mark.parametrize("name", ENDPOINTS)
def test_each_endpoint_wants_its_own_permission(client_of, name):
    id_ = factories.queued().id
    others = client_of(*(other for other in ENDPOINTS if other != name))
    assert ENDPOINTS[name](others, id_).status_code == 403
    assert ENDPOINTS[name](client_of(name), id_).status_code in {200, 201}


def test_whether_a_job_exists_is_told_only_to_those_who_may_view_it(client_of):
    client = client_of("add_job")
    assert client.get("/api/jobs/1").status_code == 403
    assert client.get("/api/jobs/1?x=1").status_code == 403


def test_the_projects_lax_defaults_open_nothing(settings):
    settings.REST_FRAMEWORK = {
        "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"],
        "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.FormParser"],
        "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.NamespaceVersioning",
    }
    assert ApiClient().get("/api/jobs/1").status_code == 401


def test_the_projects_own_authentication_is_used(settings):
    path = "rest_framework.authentication.SessionAuthentication"
    settings.REST_FRAMEWORK = {"DEFAULT_AUTHENTICATION_CLASSES": [path]}
    assert "DEFAULT_AUTHENTICATION_CLASSES" in api_settings.user_settings
    assert authentication_classes() == [SessionAuthentication]


def test_an_inactive_user_is_out(client_of):
    client = client_of("view_job")
    User.objects.update(is_active=False)
    assert client.get("/api/jobs/1").status_code == 401


def test_a_session_needs_its_csrf_token():
    user = User.objects.create(username="someone")
    user.user_permissions.set(Permission.objects.filter(codename="change_job"))
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    response = client.post(f"/api/jobs/{factories.queued().id}/cancel")
    assert response.status_code == 403
    assert "CSRF" in response.json()["detail"]


@pytest.mark.parametrize(
    "credentials", [b"us\0er:x", b"user:\0", b"\xff\xfe:x", b"nobody", b":"]
)
def test_credentials_that_are_garbage_are_wrong(credentials):
    header = f"Basic {base64.b64encode(credentials).decode()}"
    response = Client(headers={"authorization": header}).get("/api/jobs/1")
    assert response.status_code == 401


@pytest.mark.parametrize(
    "header", ["Token", "Token a b", "Token \0", "Token é", "Basic"]
)
def test_headers_that_are_garbage_are_wrong(header):
    response = Client(headers={"authorization": header}).get("/api/jobs/1")
    assert response.status_code == 401
