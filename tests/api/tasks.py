"""Tasks that the API's tests name."""

from pgqueue_django import task


@task(name="tests.api.echo", queue="api", priority=7, max_attempts=3, timeout=20)
def echo(**payload):
    return payload


@task(name="tests.api.other")
def other(**payload):
    return payload
