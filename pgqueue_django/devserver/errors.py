"""What goes wrong with the embedded server."""

from pgqueue_django.exceptions import PgQueueError


class DevServerError(PgQueueError):
    """The embedded server cannot be started, reached or stopped.

    The first line of the message says what to do; what the server or initdb printed
    follows it.
    """


class UnansweredError(DevServerError):
    """No server that owns the directory answers, at least not yet."""
