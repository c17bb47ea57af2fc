"""Settings of the demo shop, which are those of any small Django project.

The environment may have DATABASE_URL, SECRET_KEY, DEBUG=1 and ALLOWED_HOSTS.
"""

import os
from pathlib import Path

import dj_database_url

from pgqueue_django import devserver

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = os.environ.get("SECRET_KEY", "only-for-a-demo-on-your-own-machine")
DEBUG = os.environ.get("DEBUG") == "1"
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",")
TIME_ZONE = "UTC"
ROOT_URLCONF = "demo_project.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# DATABASE_URL, or else an embedded PostgreSQL with its data in .pgdata.
DATABASES = {
    "default": dj_database_url.parse(
        devserver.database_url(BASE_DIR / ".pgdata"),
        conn_max_age=60,
        conn_health_checks=True,
    )
}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "rest_framework",
    "rest_framework.authtoken",
    "pgqueue_django",
    "demo_project.shop",
]

# Every key has a default. So long after a worker was killed, its jobs run again.
PGQUEUE = {"LEASE_SECONDS": 15}

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Static files straight from the apps: a demo needs no collectstatic.
STATIC_URL = "static/"
WHITENOISE_USE_FINDERS = True

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {
            "format": "{asctime} {levelname} {message}",
            "datefmt": "%H:%M:%S",
            "style": "{",
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": "INFO"},
    "loggers": {"django": {"handlers": ["console"], "propagate": False}},
}
