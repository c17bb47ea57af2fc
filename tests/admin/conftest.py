import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client

LIST = "/admin/pgqueue_django/job/"


@pytest.fixture
def staff(db):
    """Return a function that logs in a member of staff with these permissions."""

    def made(*codenames):
        user = User.objects.create(username=f"s{User.objects.count()}", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client = Client()
        client.force_login(user)
        return client

    return made


@pytest.fixture
def admin(staff):
    """Return a client that may view and cancel jobs."""
    return staff("view_job", "change_job")


@pytest.fixture
def put(db):
    """Return a function that writes columns as raw SQL can."""

    def written(id_, **columns):
        with connection.cursor() as cursor:
            for name, expression in columns.items():
                cursor.execute(
                    f"UPDATE pgqueue_job SET {name} = {expression} WHERE id = %s", [id_]
                )

    return written


def page_of(client, path=LIST, **query):
    response = client.get(path, query)
    assert response.status_code == 200, response
    return response.content.decode()


def ids_in(client, **query):
    """Return the ids of the jobs that the list shows."""
    response = client.get(LIST, query)
    assert response.status_code == 200, response
    return [job.pk for job in response.context["cl"].result_list]


def detail_of(client, id_):
    return page_of(client, f"{LIST}{id_}/change/")
