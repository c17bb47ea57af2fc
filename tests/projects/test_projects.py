"""Projects with settings, databases and neighbours that are not those of the suite."""

from importlib.util import find_spec
from itertools import product

import pytest

PRIMARY_KEYS = (
    None,
    "django.db.models.AutoField",
    "django.db.models.BigAutoField",
    "keys.TokenAutoField",
)
LANGUAGES = ("en", "de", "zh-hans")
# Every pair of two of the three settings.
COMBINATIONS = [
    (*pair, bool(number % 2))
    for number, pair in enumerate(product(PRIMARY_KEYS, LANGUAGES))
]


@pytest.mark.parametrize(("primary_key", "language", "use_tz"), COMBINATIONS)
def test_no_settings_of_a_project_make_a_migration(
    project, primary_key, language, use_tz
):
    """DJG-01."""
    project.write(
        "keys.py",
        """
        from django.db import models

        class TokenAutoField(models.BigAutoField):
            def db_type(self, connection):
                return "uuid"
        """,
    )
    project.set(f"LANGUAGE_CODE = {language!r}\nUSE_TZ = {use_tz}\n")
    if primary_key:
        project.set(f"DEFAULT_AUTO_FIELD = {primary_key!r}\n")

    project.manage("makemigrations", "pgqueue_django", "--check", "--dry-run")


ROUTED = """
DATABASES["jobs"] = DATABASES["default"]
DATABASES["default"] = {
    "ENGINE": "django.db.backends.sqlite3", "NAME": "business.sqlite3"
}
DATABASE_ROUTERS = ["routers.Jobs"]
INSTALLED_APPS += ["shop"]
"""
ROUTER = """
class Jobs:
    def db_for_read(self, model, **hints):
        return "jobs" if model._meta.app_label == "pgqueue_django" else None

    db_for_write = db_for_read

    def allow_migrate(self, db, app_label, **hints):
        return (db == "jobs") == (app_label == "pgqueue_django")
"""
TASKS = """
from pgqueue_django import task

@task
def add(first, second):
    return first + second
"""
TABLES = """
from django.db import connections

def tables(alias):
    names = connections[alias].introspection.table_names()
    return sorted(name for name in names if name.startswith("pgqueue"))

print(tables("default"), tables("jobs"))
"""
USE = """
from django.core.management import call_command
from pgqueue_django.models import Job
from shop.tasks import add

result = add.enqueue(1, 2)
call_command("pgqueue_worker", drain=True)
assert add.get_result(result.id).return_value == 3
assert Job.objects.get().state == "succeeded"
call_command("pgqueue_prune")
"""


def test_jobs_live_wholly_on_the_database_that_the_router_says(project):
    """DJG-05."""
    project.write("routers.py", ROUTER)
    project.write("shop/__init__.py", "")
    project.write("shop/tasks.py", TASKS)
    project.set(ROUTED)

    project.manage("check", "--database", "default", "--database", "jobs")
    for alias in ("default", "jobs"):
        project.manage("migrate", "--database", alias)
    business, jobs = project.python(TABLES).strip().split("] [")
    project.python(USE)
    project.manage("migrate", "pgqueue_django", "zero", "--database", "jobs")

    assert business == "["
    assert "pgqueue_job" in jobs
    assert project.python(TABLES).strip() == "[] []"


# What the queue cannot stand beside is a second table named pgqueue_job.
NEIGHBOURS = {"queue": "Job", "jobs": "Job", "tasks": "Job", "pgqueue": "Message"}
# Apps that stand there themselves where they are installed.
OTHERS = ("django_tasks", "django_celery_beat")
NEIGHBOUR = """
from django.conf import settings
from django.db import models

class {model}(models.Model):
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="{label}_jobs"
    )
    after = models.ForeignKey("self", models.CASCADE, null=True, related_name="jobs")
    queued = models.ForeignKey(
        "pgqueue_django.Job", models.CASCADE, related_name="{label}_jobs"
    )
"""
PERSON = """
import uuid

from django.contrib.auth.models import AbstractUser
from django.db import models

class Person(AbstractUser):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
"""
CONFIG = """
from django.apps import AppConfig

class Neighbour(AppConfig):
    name = "neighbour_{label}"
    label = "{label}"
"""


def _add_app(project, label, models, model=""):
    folder = f"neighbour_{label}"
    project.write(f"{folder}/__init__.py", "")
    project.write(f"{folder}/migrations/__init__.py", "")
    project.write(f"{folder}/apps.py", CONFIG.format(label=label))
    project.write(f"{folder}/models.py", models.format(label=label, model=model))
    project.set(f"INSTALLED_APPS.append({folder!r})\n")


def test_it_stands_beside_apps_and_models_of_like_names(project):
    """DJG-12."""
    neighbours = NEIGHBOURS | {name: "Job" for name in OTHERS if not find_spec(name)}
    for label, model in neighbours.items():
        _add_app(project, label, NEIGHBOUR, model)
    _add_app(project, "people", PERSON)
    project.write("shop/__init__.py", "")
    project.write("shop/tasks.py", TASKS)
    project.set(
        f"""
        AUTH_USER_MODEL = "people.Person"
        INSTALLED_APPS += ["shop"]
        INSTALLED_APPS += {[name for name in OTHERS if find_spec(name)]}
        """
    )

    project.manage("makemigrations", "people", *neighbours)
    project.manage("check", "--database", "default")
    project.manage("migrate")
    project.manage("makemigrations", "--check", "--dry-run")
    project.python(USE)


def test_a_second_table_of_its_jobs_name_is_refused_before_any_migration(project):
    """DJG-12."""
    _add_app(project, "pgqueue", NEIGHBOUR, "Job")

    assert "models.E028" in project.refused("check")
