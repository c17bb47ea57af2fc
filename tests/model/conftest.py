from collections.abc import Iterator
from contextlib import closing

import pytest
from django.db import connection

from tests.model.machine import World


@pytest.fixture
def need_no_disk(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Let no commit wait for the disk: many thousands of them show what they do."""
    monkeypatch.setenv("PGOPTIONS", "-c synchronous_commit=off")
    connection.close()
    yield
    connection.close()


@pytest.fixture
def world(need_no_disk: None) -> Iterator[World]:
    with closing(World()) as world:
        yield world
