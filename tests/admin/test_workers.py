"""The list of worker processes."""

import pytest
from django.db import connection

from pgqueue_django.db import DjangoSession
from pgqueue_django.managers.workers import Introduction, beat

pytestmark = pytest.mark.django_db

LIST = "/admin/pgqueue_django/workerprocess/"


@pytest.fixture
def admin(staff):
    return staff("view_workerprocess")


def seen(name: str, seconds_ago: float) -> None:
    introduced = Introduction(name, "host-7", 4_242, "mail,default", 8, 64, "0.1.0")
    beat(DjangoSession("default"), introduced, running=3, age=0)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pgqueue_worker SET seen_at = seen_at - make_interval(secs => %s)"
            " WHERE name = %s",
            [seconds_ago, name],
        )


def test_shows_who_is_there_and_who_is_silent(admin):
    seen("well", 5)
    seen("gone", 600)
    html = admin.get(LIST).content.decode()

    for text in ("well", "host-7", "4242", "mail,default", "64", "5 s ago"):
        assert text in html, text
    assert html.count("silent</strong>") == 1
    assert "10 min ago, silent" in html


def test_nothing_can_be_changed(admin):
    seen("well", 5)

    assert admin.get(LIST + "add/").status_code == 403
    assert admin.post(LIST + "well/delete/", {"post": "yes"}).status_code == 403
    page = admin.get(LIST + "well/change/")
    assert page.status_code == 200
    assert b'name="_save"' not in page.content
