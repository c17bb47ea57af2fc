import json

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from rest_framework.authtoken.models import Token

from tests.api import tasks

JSON = "application/json"


class ApiClient(Client):
    """Sends JSON, and bodies that are no JSON as they are."""

    def send(self, body, path="/api/jobs", content_type=JSON, **headers):
        raw = body if isinstance(body, bytes | str) else json.dumps(body)
        return self.post(path, raw, content_type=content_type, headers=headers)

    def enqueue(self, **fields):
        return self.send({"task": tasks.echo.task_name, **fields})

    def refused(self, **fields):
        """Return what is wrong with a request that is refused with 400."""
        return errors_of(self.enqueue(**fields))


def errors_of(response):
    assert response.status_code == 400, response.content
    assert response.json()["code"] == "invalid"
    return response.json()["errors"]


@pytest.fixture
def client_of(db):
    """Return a function that makes clients with exactly these permissions."""

    def made(*codenames):
        user = User.objects.create(username=f"user-{User.objects.count()}")
        wanted = Permission.objects.filter(codename__in=codenames)
        assert len(wanted) == len(codenames)
        user.user_permissions.set(wanted)
        token = Token.objects.create(user=user)
        return ApiClient(headers={"authorization": f"Token {token.key}"})

    return made


@pytest.fixture
def api(client_of):
    """Return a client that may do everything."""
    return client_of("add_job", "view_job", "change_job")
