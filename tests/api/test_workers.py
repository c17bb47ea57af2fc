"""``GET /workers``."""

from pgqueue_django.db import DjangoSession
from pgqueue_django.managers.workers import Introduction, beat


def test_workers_are_shown(client_of):
    who = Introduction("w", "host", 7, "default", 2, 100, "1.0")
    beat(DjangoSession("default"), who, running=1, age=5)
    response = client_of("view_workerprocess").get("/api/workers")
    assert response.status_code == 200
    (shown,) = response.json()["workers"]
    assert shown.items() >= {**who._asdict(), "running": 1, "silent": False}.items()


def test_it_wants_its_own_permission(client_of):
    assert client_of("view_job").get("/api/workers").status_code == 403
