import subprocess
import sys

import pytest

import pgqueue_django


def run(code):
    return subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_name_is_there():
    for name in pgqueue_django.__all__:
        assert getattr(pgqueue_django, name) is not None
    assert sorted(pgqueue_django.__all__) == sorted(set(pgqueue_django.__all__))
    assert set(pgqueue_django.__all__) <= set(dir(pgqueue_django))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pgqueue_django.nothing  # noqa: B018 - the look-up is the test


def test_needs_no_settings_to_be_imported():
    code = (
        "from pgqueue_django import Backoff, Retry, Snooze, Cancel, task, enqueue,"
        " JobContext, JobResult\n"
        "Backoff(base=1)\n"
        "import sys; assert 'pgqueue_django.models' not in sys.modules"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_settings_can_use_it():
    code = (
        "import sys; from pgqueue_django import Backoff\n"
        "assert not {'django.tasks', 'django_tasks'} & set(sys.modules)"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_tasks_can_be_declared_while_the_apps_load():
    code = (
        "import sys, types\n"
        "from django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=['tests.tasks', 'pgqueue_django'])\n"
        "import tests.tasks.handlers as h\n"
        "assert 'pgqueue_django.models' not in sys.modules\n"
        "assert h.add.backend == 'pgqueue'\n"
        "from django.core.exceptions import AppRegistryNotReady\n"
        "try: h.add.enqueue(1)\n"
        "except AppRegistryNotReady: pass\n"
        "else: raise AssertionError('enqueued before the apps were loaded')\n"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_a_script_is_told_where_tasks_belong(tmp_path):  # DJG-17
    script = tmp_path / "script.py"
    script.write_text(
        "from django.conf import settings; settings.configure()\n"
        "from pgqueue_django import task\n"
        "@task(name='stable')\n"
        "def send(): pass\n"
    )
    done = run(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")
    assert done.returncode == 1
    assert "send is in __main__" in done.stderr
    assert "`tasks` module of an installed app" in done.stderr


def test_says_what_to_install_where_the_framework_is_missing():
    code = (
        "import sys, django\n"
        "django.VERSION = (5, 2, 0, 'final', 0)\n"
        "sys.modules['django_tasks'] = None\n"
        "import pgqueue_django\n"
        "pgqueue_django.Backoff\n"
        "try: pgqueue_django.task\n"
        "except ImportError as error: print(error)\n"
    )
    done = run(code)
    assert "pip install django-tasks" in done.stdout, done.stderr
