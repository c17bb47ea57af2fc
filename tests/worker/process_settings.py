"""Settings of worker processes that the tests start: the suite's, without the web."""

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

DATABASES["default"].update(json.loads(os.environ["TEST_DATABASE"]))
DATABASES["other"] = DATABASES["default"].copy()
PGQUEUE = {
    "TASK_MODULES": [
        "tests.worker.handlers",
        "tests.worker.async_handlers",
        "tests.worker.rough",
    ],
    "REAP_INTERVAL_SECONDS": 0.1,
    **json.loads(os.environ.get("TEST_PGQUEUE", "{}")),
}

# What a worker does not need takes half of its time to start.
INSTALLED_APPS = ["pgqueue_django"]
MIDDLEWARE = TEMPLATES = []  # type: ignore[assignment]
ROOT_URLCONF = __name__
urlpatterns: list[object] = []
