"""Tasks: ``@task``, and what it makes of a function."""

import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    overload,
)

from pgqueue_django import limits
from pgqueue_django.aliases import (
    IMPLICIT_ALIAS,
    backend_class,
    default_alias,
    implicit_backend,
    is_ours,
)
from pgqueue_django.backoff import Backoff
from pgqueue_django.compat import (
    AnyTask,
    BaseTaskBackend,
    GenericTask,
    InvalidTask,
    P,
    R,
    Task,
    task_backends,
)
from pgqueue_django.context import JobContext
from pgqueue_django.policies import (
    BackoffPolicy,
    CancelPolicy,
    ExceptionPolicy,
    Reaction,
    reaction_to,
)
from pgqueue_django.registry import registry
from pgqueue_django.results import JobResult
from pgqueue_django.specs import JobSpec, clean_delay
from pgqueue_django.task_options import (
    CLEANED,
    OF_ONE_CALL,
    CallOptions,
    TaskOptions,
    clean_option,
    first,
    only_one,
    refuse_static,
    refuse_unknown,
)
from pgqueue_django.texts import brief

AnyTaskT = TypeVar("AnyTaskT", bound=AnyTask)


if TYPE_CHECKING:
    # Said here, since Django has no types where its stubs are not installed. The stubs'
    # results are generic in the parameters too, which nobody asks a result for.
    class _TypedTask(GenericTask[P, R]):
        def enqueue(  # type: ignore[override]
            self, *args: P.args, **kwargs: P.kwargs
        ) -> JobResult[R]: ...
        async def aenqueue(  # type: ignore[override]
            self, *args: P.args, **kwargs: P.kwargs
        ) -> JobResult[R]: ...
        def get_result(  # type: ignore[override]
            self, result_id: str
        ) -> JobResult[R]: ...
        async def aget_result(  # type: ignore[override]
            self, result_id: str
        ) -> JobResult[R]: ...
        def call(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
        async def acall(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

else:
    _TypedTask = GenericTask


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTask(_TypedTask[P, R]):
    """A ``django.tasks`` Task with the options of this queue.

    ``@task`` makes it. On a ``PgQueueBackend``, Django's own ``@task`` makes it too.

    Raises:
        InvalidTask: An option is wrong, the function cannot be a task, or its name
            belongs to another.
    """

    registered_name: str | None = None
    """The name that jobs store; None is the module path."""

    max_attempts: int | None = None
    """Attempts before the job is dead; None leaves it to the backend."""

    # A dict has no hash, nor may a callable object; a task must have one.
    backoff: BackoffPolicy | None = field(default=None, hash=False)
    """The wait between attempts; None leaves it to the backend."""

    on_exception: ExceptionPolicy | None = field(default=None, hash=False)
    """What follows exceptions of certain classes."""

    timeout: float | None = None
    """Seconds that an attempt may take; None leaves it to the backend."""

    cancel: CancelPolicy | None = None
    """What a cancel does to a running handler; None is "cooperative"."""

    delay: float | None = None
    """Of one call: seconds from the database's now until it may start."""

    idempotency_key: str | None = None
    """Of one call: the same key in the same queue is the same job."""

    unique_key: str | None = None
    """Of one call: a queue has one job of a key at most that has not ended."""

    def __post_init__(self) -> None:
        self._clean()
        # Not bare super(): dataclass(slots=True) makes a second class before 3.14.
        super(QueueTask, self).__post_init__()
        registry.register(self)

    def __reduce__(self) -> tuple[object, ...]:
        changes = {name: getattr(self, name) for name in OF_ONE_CALL}
        return _rebuild, (self.task_name, changes)

    def _clean(self) -> None:
        for name in CLEANED:
            value = clean_option(name, getattr(self, name))
            object.__setattr__(self, name, value)
        if not isinstance(self.takes_context, bool):
            raise InvalidTask(
                f"takes_context: must be True or False, not {brief(self.takes_context)}"
            )
        if self.delay is not None and self.run_after is not None:
            raise InvalidTask("delay: give delay or run_after, not both")

    @property
    def task_name(self) -> str:
        """The name that jobs store."""
        return self.registered_name or self.module_path

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        queue: str | None = None,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        idempotency_key: str | None = None,
        unique_key: str | None = None,
        max_attempts: int | None = None,
        timeout: float | timedelta | None = None,
        **unknown: object,
    ) -> Self:
        """Return a copy with other options; None keeps what there is.

        Args:
            priority: -100 to 100, higher first.
            queue_name: The queue.
            run_after: The earliest start. It and ``delay`` replace each other.
            backend: An alias of ``settings.TASKS``.
            queue: The same as ``queue_name``.
            run_at: The same as ``run_after``.
            delay: Seconds, or a timedelta, from the database's now.
            idempotency_key: The same key in the same queue is the same job.
            unique_key: While a job of that key in that queue has not ended, it is
                what an enqueue returns.
            max_attempts: Attempts before the job is dead.
            timeout: Seconds, or a timedelta, that an attempt may take.
            **unknown: Refused, with the option that was meant.

        Raises:
            TypeError: An option is unknown, or two say the same thing.
            InvalidTask: The value of an option is wrong.
        """
        refuse_unknown("using()", unknown, CallOptions.__annotations__)
        changes = {
            "priority": priority,
            "queue_name": only_one(queue_name=queue_name, queue=queue),
            "backend": backend,
            "idempotency_key": idempotency_key,
            "unique_key": unique_key,
            "max_attempts": max_attempts,
            "timeout": timeout,
        }
        changes = {name: value for name, value in changes.items() if value is not None}
        if only_one(run_after=run_after, run_at=run_at, delay=delay) is not None:
            changes |= {"run_after": first(run_after, run_at), "delay": delay}
        return replace(self, **changes)

    def spec(self, *args: P.args, **kwargs: P.kwargs) -> JobSpec:
        """Return what ``enqueue`` would store, for ``Job.objects.enqueue_many``.

        Raises:
            InvalidTask: The task cannot be run, an option is wrong, or its backend is
                of another kind.
            InvalidJob: An argument cannot be stored.
        """
        backend = self.get_backend()
        if not isinstance(backend, backend_class()):
            raise InvalidTask(
                f"backend: {self.backend!r} is a {type(backend).__name__}, which "
                f"stores no jobs; name a {backend_class().__name__} in @task or using()"
            )
        backend.validate_task(self)
        return backend.spec_of(self, args, kwargs)  # type: ignore[attr-defined, no-any-return]

    def get_backend(self) -> BaseTaskBackend:
        """Return the backend that takes this task's jobs.

        Raises:
            InvalidTaskBackend: ``settings.TASKS`` has no such alias.
        """
        if (
            self.backend == IMPLICIT_ALIAS
            and self.backend not in task_backends.settings
        ):
            return implicit_backend()
        return super(QueueTask, self).get_backend()

    def delay_after(self, attempt: int) -> float:
        """Return the seconds to wait after a failed attempt, counted from 1.

        Raises:
            InvalidJob: The task's own function returned no delay.
            Exception: What that function raised.
        """
        default = getattr(self.get_backend(), "default_backoff", None)
        policy = first(self.backoff, default) or Backoff()
        if isinstance(policy, Backoff):
            return policy.delay(attempt)
        return clean_delay(policy(attempt), field="backoff")

    def reaction_to(self, error: BaseException) -> Reaction:
        """Return what follows an exception of the handler."""
        return reaction_to(error, self.on_exception)


class _Decorator(Protocol):
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> QueueTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> QueueTask[P, R]: ...


class _ContextDecorator(Protocol):
    @overload
    def __call__(
        self,
        function: Callable[Concatenate[JobContext, P], Coroutine[Any, Any, R]],
        /,
    ) -> QueueTask[P, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, P], R], /
    ) -> QueueTask[P, R]: ...


@overload
def task(
    function: Callable[P, Coroutine[Any, Any, R]],
    /,
    *,
    takes_context: Literal[False] = False,
    **options: Unpack[TaskOptions],
) -> QueueTask[P, R]: ...
@overload
def task(
    function: Callable[P, R],
    /,
    *,
    takes_context: Literal[False] = False,
    **options: Unpack[TaskOptions],
) -> QueueTask[P, R]: ...
@overload
def task(
    *, takes_context: Literal[True], **options: Unpack[TaskOptions]
) -> _ContextDecorator: ...
@overload
def task(
    *, takes_context: Literal[False] = False, **options: Unpack[TaskOptions]
) -> _Decorator: ...
def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    queue: str | None = None,
    queue_name: str | None = None,
    priority: int = limits.DEFAULT_PRIORITY,
    max_attempts: int | None = None,
    backoff: BackoffPolicy | None = None,
    on_exception: ExceptionPolicy | None = None,
    timeout: float | timedelta | None = None,
    cancel: CancelPolicy | None = None,
    takes_context: bool = False,
    backend: str | None = None,
    **unknown: object,
) -> Any:
    """Make a task of a function, with or without options.

    Args:
        function: A function at the top of a module that a worker can import.
        name: The name that jobs store and that producers use. It survives a move of
            the function; the default, its module path, does not.
        queue: Where its jobs wait.
        queue_name: The same as ``queue``, in Django's words.
        priority: -100 to 100, higher first.
        max_attempts: Attempts before a job is dead.
        backoff: A ``Backoff``, or a function from the number of the failed attempt to
            seconds.
        on_exception: A dict from exception classes to ``"retry"``, ``"give_up"``,
            seconds or a timedelta. The nearest class counts.
        timeout: Seconds, or a timedelta, that an attempt may take.
        cancel: What a cancel does while the handler runs. "cooperative", the default,
            sets ``context.should_stop``. "interrupt" also raises ``AttemptCancelled``
            in it, or cancels it if it is async, and replaces the process if it does
            not end within 2 s.
        takes_context: Whether the first argument, ``context``, is a ``JobContext``.
        backend: An alias of ``settings.TASKS``. By default the first that is a
            ``PgQueueBackend``, or one that needs no entry there.
        **unknown: Refused, with the option that was meant.

    Returns:
        The task, or a decorator where no function is given.

    Raises:
        TypeError: An option is unknown, or two say the same thing.
        InvalidTask: The function cannot be a task, or an option's value is wrong.
    """
    refuse_static(unknown)
    refuse_unknown("@task", unknown, (*TaskOptions.__annotations__, "takes_context"))
    queue = only_one(queue=queue, queue_name=queue_name)

    def decorate(func: Callable[..., Any]) -> QueueTask[..., Any]:
        return QueueTask(
            func=func,
            registered_name=name,
            queue_name=limits.DEFAULT_QUEUE if queue is None else queue,
            priority=priority,
            max_attempts=max_attempts,
            backoff=backoff,
            on_exception=on_exception,
            timeout=timeout,  # type: ignore[arg-type] # cleaned to seconds
            cancel=cancel,
            takes_context=takes_context,
            backend=default_alias() if backend is None else backend,
            run_after=None,
        )

    return decorate if function is None else decorate(function)


def registered(name: str) -> QueueTask[..., Any]:
    """Return the task of that name, also where Django's own ``@task`` made it.

    Raises:
        UnknownTask: No task is registered by that name.
    """
    found: QueueTask[..., Any] = registry.get(name)  # type: ignore[assignment]
    return found


def as_queue_task(plain: AnyTask) -> QueueTask[..., Any]:
    """Return a task with this queue's options, all at their defaults where it has none.

    A task that was declared for a backend of another kind goes to this queue's.
    """
    if isinstance(plain, QueueTask):
        return plain
    values = {each.name: getattr(plain, each.name) for each in fields(plain)}
    if not is_ours(task_backends.settings.get(plain.backend, {})):
        values["backend"] = default_alias()
    return _unchecked(QueueTask, values)


def unchecked_task(**values: object) -> QueueTask[..., Any]:
    """Make a task that is neither checked nor registered, for a job that exists."""
    return _unchecked(QueueTask, values)


def declared_of(task: AnyTask) -> AnyTask:
    """Return a task as its module has it, of which ``using()`` may have made this."""
    module, name = sys.modules.get(task.func.__module__), task.func.__qualname__
    found = getattr(module, name, None)
    return found if isinstance(found, Task) and found.func is task.func else task


def as_stored(declared: AnyTaskT, **changes: object) -> AnyTaskT:
    """Copy a task for a job that exists, whether today's settings allow it or not."""
    values = {each.name: getattr(declared, each.name) for each in fields(declared)}
    return _unchecked(type(declared), values | changes)


def _unchecked(cls: type[AnyTaskT], values: Mapping[str, object]) -> AnyTaskT:
    made = object.__new__(cls)
    for each in fields(cls):
        default = None if each.default is MISSING else each.default
        object.__setattr__(made, each.name, values.get(each.name, default))
    return made


def _rebuild(name: str, changes: Mapping[str, Any]) -> QueueTask[..., Any]:
    return replace(registered(name), **changes)
