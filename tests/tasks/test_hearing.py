"""A log line is made only where somebody reads it."""

import logging
import logging.config
from copy import deepcopy

import pytest
from django.utils.log import DEFAULT_LOGGING

from pgqueue_django.hearing import is_written


@pytest.fixture
def logger():
    """Return a logger that nobody else knows, pytest included."""
    return logging.Logger("tests.hearing", logging.INFO)  # noqa: LOG001


@pytest.fixture
def djangos(logger):
    """Return a logger as Django's default LOGGING configures ``django``."""
    given = deepcopy(DEFAULT_LOGGING)
    given["loggers"] = {"tests.djangos": given["loggers"]["django"] | {"propagate": 0}}
    logging.config.dictConfig(given)
    configured = logging.getLogger("tests.djangos")
    logger.handlers = list(configured.handlers)
    configured.handlers.clear()
    return logger


def test_djangos_default_writes_no_line_of_a_success(djangos, settings):
    assert djangos.isEnabledFor(logging.INFO)
    assert not is_written(djangos, logging.INFO)
    settings.DEBUG = True
    assert is_written(djangos, logging.INFO)


def test_djangos_default_sends_failures_to_admins(djangos):
    assert is_written(djangos, logging.ERROR)


def test_a_line_below_the_level_is_not_written(logger):
    logger.addHandler(logging.NullHandler())
    assert not is_written(logger, logging.DEBUG)
    assert is_written(logger, logging.INFO)


def test_a_handler_has_a_level_too(logger):
    handler = logging.NullHandler()
    handler.setLevel(logging.ERROR)
    logger.addHandler(handler)
    assert not is_written(logger, logging.INFO)
    assert is_written(logger, logging.ERROR)


def test_a_handler_further_up_writes_it(logger):
    lower = logging.Logger("tests.hearing.lower", logging.INFO)  # noqa: LOG001
    lower.parent = logger
    assert not is_written(lower, logging.INFO)
    logger.addHandler(logging.NullHandler())
    assert is_written(lower, logging.INFO)


def test_without_handlers_the_last_resort_writes_warnings(logger):
    assert not is_written(logger, logging.INFO)
    assert is_written(logger, logging.WARNING)
