"""The tasks that this process knows, by name.

A job stores the name of its task, and a worker looks it up here: a name that nobody
registered is never imported and never run.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from threading import RLock

from django.apps import apps
from django.utils.module_loading import import_string, module_has_submodule

from pgqueue_django import limits
from pgqueue_django.compat import AnyTask, InvalidTask, Task
from pgqueue_django.conf import get_settings
from pgqueue_django.exceptions import InvalidJob, UnknownTask
from pgqueue_django.failures import Failure
from pgqueue_django.specs import clean_task_name
from pgqueue_django.texts import brief

TASKS_MODULE = "tasks"


@dataclass(frozen=True, slots=True)
class DiscoveryError:
    """A module with tasks that could not be imported, and why."""

    module: str
    failure: Failure

    def __str__(self) -> str:
        return f"{self.module}: {self.failure.exception}: {self.failure.message}"


def name_of(task: AnyTask) -> str:
    """Return the name under which jobs of a task are stored."""
    name: str = getattr(task, "task_name", task.module_path)
    return name


def _as_ours(task: AnyTask) -> AnyTask:
    # By its path: tasks register themselves, so their module imports this one.
    ours: AnyTask = import_string("pgqueue_django.tasks.as_queue_task")(task)
    return ours


class Registry:
    """Tasks by name.

    Tasks come in by being declared. Lookups first import, once, the ``tasks`` module
    of each installed app and the modules that ``PGQUEUE["TASK_MODULES"]`` names.

    Concurrency: safe from any thread. Declaring a task never waits for an import.
    """

    def __init__(self) -> None:
        self.errors: list[DiscoveryError] = []
        self._tasks: dict[str, AnyTask] = {}
        self._changing = RLock()
        self._discovering = RLock()
        self._discovered = False

    def register(self, task: AnyTask) -> None:
        """Add a task under its name.

        The first declaration stays: a copy of it with other options is the same task.
        A reloaded module replaces its own.

        Raises:
            InvalidTask: The name is no name, or another function's.
        """
        name = name_of(task)
        with self._changing:
            known = self._tasks.get(name)
            if known is None:
                _check_name(name)
            elif known.func is task.func:
                return
            elif known.module_path != task.module_path:
                raise InvalidTask(
                    f"name: {name!r} belongs to {known.module_path}, so "
                    f"{task.module_path} cannot have it too; give one of them "
                    "another name with @task(name=...)"
                )
            self._tasks[name] = task

    def find(self, name: str) -> AnyTask | None:
        """Return the QueueTask of that name, or None.

        A task that Django's own ``@task`` made for a backend of another kind is here
        one of this queue, with all options at their defaults.
        """
        task = self.declared(name)
        return task if task is None or hasattr(task, "task_name") else _as_ours(task)

    def declared(self, name: str) -> AnyTask | None:
        """Return the task of that name as it was declared, or None."""
        if name not in self._tasks:
            self.discover()
        return self._tasks.get(name)

    def get(self, name: str) -> AnyTask:
        """Return the QueueTask of that name.

        Raises:
            UnknownTask: There is none; names those that are near.
        """
        task = self.find(name)
        if task is None:
            raise UnknownTask(self._unknown(name))
        return task

    def names(self) -> list[str]:
        """Return the names of all tasks, sorted."""
        self.discover()
        with self._changing:
            return sorted(self._tasks)

    def discover(self) -> list[DiscoveryError]:
        """Import the modules with tasks, once in the life of the process.

        Returns:
            The modules that could not be imported, now or at the first call.

        Raises:
            AppRegistryNotReady: Django is still loading its apps.

        Concurrency: later callers wait until the first has imported all modules.
        """
        with self._discovering:
            if not self._discovered:
                apps.check_models_ready()
                modules = list(_modules())
                # Set before the imports: a module may ask for names as it loads.
                self._discovered = True
                for module in modules:
                    self._import(module)
        return list(self.errors)

    def _import(self, module: str) -> None:
        try:
            import_module(module)
            for task in _declared_in(module):
                self.register(task)
        except KeyboardInterrupt:
            self._discovered = False
            raise
        except BaseException as error:  # noqa: BLE001 - sys.exit() in a module, too
            self._drop(module)
            self.errors.append(DiscoveryError(module, Failure.of(error)))

    def _drop(self, module: str) -> None:
        """Forget tasks that a module declared before it failed: it is half there."""
        with self._changing:
            for name, task in list(self._tasks.items()):
                if task.func.__module__ == module:
                    del self._tasks[name]

    def _unknown(self, name: str) -> str:
        parts = [f"No task is registered as {brief(name)}."]
        if near := get_close_matches(name[: limits.TASK_CHARS], self._tasks, n=3):
            parts.append(f"Did you mean {' or '.join(map(repr, near))}?")
        if self.errors:
            parts.append(
                "Some modules with tasks could not be imported: "
                + "; ".join(map(str, self.errors))
            )
        if len(parts) == 1:
            parts.append(
                "Tasks are found in the `tasks` module of each installed app and in "
                "PGQUEUE['TASK_MODULES']."
            )
        return " ".join(parts)


def _check_name(name: str) -> None:
    try:
        clean_task_name(name)
    except InvalidJob as error:
        raise InvalidTask(f"name: {error.message}") from error


def _modules() -> Iterator[str]:
    for app in apps.get_app_configs():
        if app.module and module_has_submodule(app.module, TASKS_MODULE):
            yield f"{app.name}.{TASKS_MODULE}"
    yield from get_settings().task_modules


def _declared_in(module: str) -> list[AnyTask]:
    """Find tasks that were declared for another backend: ``using()`` may change it."""
    values = list(vars(sys.modules[module]).values())
    # isinstance() would wake up lazy objects, which may ask a database.
    return [value for value in values if issubclass(type(value), Task)]


registry = Registry()
