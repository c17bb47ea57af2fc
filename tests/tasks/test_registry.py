import sys
import threading
from types import SimpleNamespace

import pytest
from django.core.exceptions import AppRegistryNotReady

from pgqueue_django import UnknownTask, task
from pgqueue_django.compat import InvalidTask
from pgqueue_django.registry import Registry, registry
from pgqueue_django.tasks import QueueTask, registered
from tests.tasks import handlers
from tests.tasks.conftest import BACKEND, DUMMY


@pytest.fixture
def module(tmp_path, monkeypatch, clean_registry):
    """Write modules that can be imported for the length of a test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def write(name, text):
        path = tmp_path.joinpath(*name.split("."))
        path.parent.mkdir(parents=True, exist_ok=True)
        for parent in path.parents:
            if parent == tmp_path:
                break
            parent.joinpath("__init__.py").touch()
        path.with_suffix(".py").write_text(text)
        return name

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


GOOD = "from pgqueue_django import task\n@task\ndef good(): pass\n"


@pytest.fixture
def discover(settings):
    def run(*modules):
        settings.PGQUEUE = {"TASK_MODULES": list(modules)}
        found = Registry()
        found.discover()
        return found

    return run


def test_finds_a_task_by_its_name():
    assert registry.get("tests.tasks.handlers.add") is handlers.add
    assert registry.find("stable.name") is handlers.with_every_option


def test_a_stable_name_replaces_the_module_path():
    assert registry.find("tests.tasks.handlers.with_every_option") is None


def test_an_unknown_name_comes_with_near_ones():
    with pytest.raises(
        UnknownTask, match=r"Did you mean .*'tests\.tasks\.handlers\.add'"
    ):
        registry.get("tests.tasks.handlers.ad")


def test_an_unknown_name_like_no_other_says_where_tasks_are_found():
    with pytest.raises(UnknownTask, match="PGQUEUE"):
        registry.get("zzz")


@pytest.mark.parametrize(
    "name", ["os.system", "tests.tasks.handlers.plain", "builtins.eval"]
)
def test_a_name_that_is_not_registered_is_never_imported(name):  # DJG-17
    with pytest.raises(UnknownTask):
        registered(name)


def test_names_are_sorted():
    names = registry.names()
    assert names == sorted(names)
    assert "stable.name" in names


def test_a_copy_leaves_the_declaration_in_its_place():
    handlers.add.using(priority=99)
    assert registry.get("tests.tasks.handlers.add").priority == 0


def test_two_functions_cannot_have_one_name(clean_registry):
    task(name="taken")(handlers.plain)
    with pytest.raises(InvalidTask) as refusal:
        task(name="taken")(handlers.other_plain)
    for part in ("'taken'", "tests.tasks.handlers.plain", "handlers.other_plain"):
        assert part in str(refusal.value)


def test_one_function_can_have_two_names(clean_registry):
    first, second = task(name="a")(handlers.plain), task(name="b")(handlers.plain)
    assert registry.get("a") is first
    assert registry.get("b") is second


def test_a_reloaded_module_replaces_its_tasks(module):
    import importlib

    reloaded = importlib.import_module(module("reloaded", GOOD))
    before = reloaded.good
    importlib.reload(reloaded)
    assert registry.get("reloaded.good") is reloaded.good is not before


# --- discovery ------------------------------------------------------------------------


def test_imports_the_tasks_module_of_each_app(module, settings, discover):
    module("first_app.tasks", GOOD)
    module("second_app.other", GOOD)
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "first_app", "second_app"]
    found = discover()
    assert found.find("first_app.tasks.good") is not None
    assert found.find("second_app.other.good") is None
    assert found.errors == []


def test_imports_the_modules_of_the_setting(module, discover):
    found = discover(module("jobs.mail", GOOD))
    assert found.get("jobs.mail.good").task_name == "jobs.mail.good"


@pytest.mark.parametrize(
    ("text", "exception"),
    [
        ("raise ValueError('broken')", "builtins.ValueError"),
        ("import sys; sys.exit(3)", "builtins.SystemExit"),
        ("raise BaseException('odd')", "builtins.BaseException"),
        ("import no_such_module_at_all", "builtins.ModuleNotFoundError"),
        ("def broken(:", "builtins.SyntaxError"),
        ("from pgqueue_django import task\n@task\nclass A: pass", "InvalidTask"),
    ],
)
def test_a_module_that_fails_stops_no_other(  # PRC-02
    module, discover, text, exception
):
    found = discover(module("broken", text), module("fine", GOOD))
    assert found.find("fine.good") is not None
    (error,) = found.errors
    assert error.module == "broken"
    assert exception in error.failure.exception
    assert found.discover() == [error]


def test_a_missing_module_of_the_setting_is_an_error(discover):
    (error,) = discover("no_such_module").errors
    assert "no_such_module" in str(error)


def test_a_failed_module_is_named_with_an_unknown_task(module, discover):
    found = discover(module("broken", f"{GOOD}\nraise ValueError('half way')"))
    with pytest.raises(UnknownTask, match=r"broken: builtins\.ValueError: half way"):
        found.get("broken.good")


def test_half_a_module_registers_nothing(module, settings, monkeypatch):
    broken = module("broken", f"{GOOD}\nraise ValueError('half way')")
    settings.PGQUEUE = {"TASK_MODULES": [broken]}
    monkeypatch.setattr(registry, "_discovered", False)
    monkeypatch.setattr(registry, "errors", [])
    assert len(registry.discover()) == 1
    assert registry.find("broken.good") is None


def test_ctrl_c_during_the_imports_is_not_swallowed(module, discover):
    with pytest.raises(KeyboardInterrupt):
        discover(module("slow", "raise KeyboardInterrupt"))


def test_of_two_apps_with_one_name_the_second_is_reported(module, discover):
    text = GOOD.replace("@task", "@task(name='send')")
    found = discover(module("one", text), module("two", text))
    (error,) = found.errors
    assert error.module == "two"
    assert "one.good" in str(error)
    assert found.get("send").module_path == "one.good"


def test_a_module_may_ask_for_names_as_it_loads(module, discover):
    text = f"{GOOD}\nfrom pgqueue_django.registry import registry\nregistry.names()"
    assert discover(module("asks", text)).errors == []


def test_waits_until_the_apps_are_loaded(monkeypatch):
    from django.apps import apps

    monkeypatch.setattr(apps, "models_ready", False)
    fresh = Registry()
    with pytest.raises(AppRegistryNotReady):
        fresh.find("anything")
    monkeypatch.undo()
    assert fresh.find("anything") is None


def test_many_threads_import_once(module, settings):
    count = "import sys; sys.imports = getattr(sys, 'imports', 0) + 1"
    text = f"{GOOD}\n{count}"
    settings.PGQUEUE = {"TASK_MODULES": [module("counted", text)]}
    fresh, start = Registry(), threading.Barrier(8)
    found = []

    def look():
        start.wait(10)
        found.append(fresh.find("counted.good"))

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sys.__dict__.pop("imports") == 1
    assert len(found) == 8
    assert None not in found


def test_a_django_task_of_another_backend_is_found(
    module, discover, django_task, tasks_setting
):
    tasks_setting(default={"BACKEND": DUMMY})
    path = f"from {django_task.__module__} import task\n@task\ndef good(): pass\n"
    found = discover(module("elsewhere", path))
    assert found.find("elsewhere.good") is not None


def test_a_django_task_gets_this_queues_options(
    clean_registry, django_task, tasks_setting
):
    tasks_setting(default={"BACKEND": DUMMY}, jobs={"BACKEND": BACKEND})
    made = django_task(handlers.plain)
    assert not isinstance(made, QueueTask)
    registry.register(made)
    ours = registered("tests.tasks.handlers.plain")
    assert isinstance(ours, QueueTask)
    assert registry.declared("tests.tasks.handlers.plain") is made
    assert ours.backend == "jobs"
    assert ours.reaction_to(ValueError()) == "retry"


def test_lazy_objects_are_left_asleep(module, discover):
    lazy = (
        "from django.utils.functional import SimpleLazyObject\n"
        "sleeper = SimpleLazyObject(lambda: 1 / 0)\n"
    )
    assert discover(module("sleepy", f"{GOOD}\n{lazy}")).errors == []


def test_an_endless_name_is_cut():
    with pytest.raises(UnknownTask) as refusal:
        registry.get("x" * 1_000_000)
    assert len(str(refusal.value)) < 1_000


def test_a_name_that_cannot_be_stored_is_refused():
    odd = SimpleNamespace(task_name="a\nb", func=handlers.plain, module_path="x")
    with pytest.raises(InvalidTask, match=r"name: .*control"):
        Registry().register(odd)  # type: ignore[arg-type]
