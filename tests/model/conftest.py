from collections.abc import Iterator
from contextlib import closing

import pytest
from django.db import connection

from tests.model.machine import World


@pytest.fixture
def world(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Return the connections of a model run, which need not wait for the disk."""
    monkeypatch.setenv("PGOPTIONS", "-c synchronous_commit=off")
    connection.close()
    with closing(World()) as world:
        yield world
    connection.close()
