"""Settings of the queues that are Django apps: the app, and the database of the repeat.

PG* variables say where that is. Connections stay open, as all of these queues advise.
"""

import json
import os

INSTALLED_APPS = json.loads(os.environ["PEER_APPS"])
TASKS = json.loads(os.environ.get("PEER_TASKS", "{}"))
PGQUEUE = json.loads(os.environ.get("PEER_PGQUEUE", "{}"))
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["PGDATABASE"],
        "CONN_MAX_AGE": None,
        **json.loads(os.environ.get("PEER_DATABASE", "{}")),
    }
}
