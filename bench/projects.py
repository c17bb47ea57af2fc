"""Django, set up as manage.py does it."""

import os

import django


def set_up() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "demo_project.settings")
    django.setup()
