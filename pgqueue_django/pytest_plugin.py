"""pytest fixtures; pytest finds them where the package is installed.

The helpers are imported when a fixture is used: plugins load before Django's set-up.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture
def pgqueue(db: None) -> "ModuleType":  # noqa: ARG001 - for what it sets up
    """Return ``pgqueue_django.testing``, in a test that may use the database."""
    from pgqueue_django import testing

    return testing


@pytest.fixture
def pgqueue_inline(pgqueue: "ModuleType") -> Iterator[None]:
    """Run jobs at once when the test enqueues them."""
    with pgqueue.inline():
        yield
