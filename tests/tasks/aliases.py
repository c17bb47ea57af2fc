"""A module that has another's task under another name."""

from tests.tasks.handlers import add as total

__all__ = ["total"]
