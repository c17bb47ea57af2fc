import json
from io import StringIO

import pytest
from django.core.management import call_command

from pgqueue_django.bench.connecting import connect
from pgqueue_django.bench.databases import PREFIX


@pytest.fixture
def left_over():
    """Return a function that names the databases of benches on the server."""

    def names():
        with connect("default", dbname="postgres") as server:
            rows = server.execute(
                "SELECT datname FROM pg_database WHERE starts_with(datname, %s)",
                [PREFIX],
            )
            return {row[0] for row in rows}

    return names


@pytest.fixture
def bench(left_over):
    """Return a function that runs a bench, and returns what it printed as JSON."""

    def run(*arguments):
        before = left_over()
        printed = StringIO()
        call_command("pgqueue_bench", *arguments, "--json", stdout=printed)
        # Others may run benches on the same server; none of ours is new.
        assert left_over() <= before
        return json.loads(printed.getvalue())

    return run
