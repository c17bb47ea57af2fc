"""The caller's environment has no say in what the server is."""

import sys

import pytest

from pgqueue_django import devserver
from tests.devserver import servers
from tests.devserver.conftest import NewHome
from tests.devserver.servers import Caller

_DECISIONS = {
    "server_encoding": "UTF8",
    "lc_messages": "C",
    "default_text_search_config": "pg_catalog.english",
}


@pytest.mark.parametrize(
    "locale", [None, "C", "POSIX", "en_US.UTF-8", "de_DE", "tr_TR.UTF-8"]
)
def test_any_locale_makes_a_utf8_server(
    fresh_home: NewHome, locale: str | None
) -> None:
    """DEV-07, DEV-08."""
    home = fresh_home("żółć")
    environment = {"LANG": locale, "LC_ALL": locale} if locale else {}
    caller = Caller(
        python=sys.executable,
        environment=environment | {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )
    # From a directory's name that this process knows and the child is given as bytes.
    url = caller.call("ensure_running", home)["answer"]
    for name, value in _DECISIONS.items():
        assert servers.fetch(url, f"SHOW {name}") == value
    assert servers.fetch(url, "SELECT 'żółć 🎉'") == "żółć 🎉"
    assert servers.fetch(url, "SELECT upper('żi')") == "ŻI"


def test_settings_for_libpq_and_the_server_do_not_matter(
    fresh_home: NewHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DEV-11: among them the place of another server."""
    for name, value in {
        "PGDATA": "/nonexistent",
        "PGHOST": "example.invalid",
        "PGPORT": "1",
        "PGDATABASE": "other",
        "PGUSER": "other",
        "PGSERVICE": "other",
    }.items():
        monkeypatch.setenv(name, value)
    home = fresh_home()
    url = devserver.ensure_running(home)
    assert devserver.status(home).url == url
    monkeypatch.delenv("PGSERVICE")
    assert servers.fetch(url, "SELECT 1") == 1
