import dataclasses
import pickle
from copy import deepcopy
from datetime import timedelta
from typing import Literal

import pytest

from pgqueue_django import Backoff, task
from pgqueue_django.compat import InvalidTask, Task
from pgqueue_django.tasks import QueueTask
from tests.tasks import aliases, handlers


@pytest.mark.parametrize(
    "declared", [handlers.noop, handlers.add, handlers.add_async, handlers.tell_attempt]
)
def test_makes_a_django_task(declared):
    assert isinstance(declared, Task)
    assert isinstance(declared, QueueTask)


def test_keeps_every_option():
    declared = handlers.with_every_option
    assert declared.queue_name == "mail"
    assert declared.priority == 7
    assert declared.max_attempts == 3
    assert declared.timeout == 90.0
    assert declared.backoff == Backoff(base=10, factor=2, cap=60, jitter=0)


def test_is_named_by_its_module_path():
    assert handlers.add.name == "add"
    assert handlers.add.module_path == "tests.tasks.handlers.add"
    assert handlers.add.task_name == "tests.tasks.handlers.add"


def test_a_given_name_is_stable():  # DJG-17
    assert handlers.with_every_option.task_name == "stable.name"


def test_an_import_under_another_name_changes_no_name():  # DJG-17
    assert aliases.total.task_name == "tests.tasks.handlers.add"


def test_queue_name_is_a_word_for_queue(clean_registry):
    assert task(queue_name="a")(handlers.plain).queue_name == "a"
    with pytest.raises(TypeError, match="queue and queue_name exclude each other"):
        task(queue="a", queue_name="b")


def test_functions_are_called_in_every_way():
    from asgiref.sync import async_to_sync

    assert handlers.add.call(1, second=2) == 3
    assert handlers.add_async.call(1, second=2) == 3
    assert async_to_sync(handlers.add.acall)(1, second=2) == 3
    assert async_to_sync(handlers.add_async.acall)(1, second=2) == 3


def test_a_task_has_a_hash_and_survives_copies():
    declared = handlers.with_every_option
    assert len({declared, declared.using()}) == 1
    assert deepcopy(declared) == declared
    assert dataclasses.asdict(declared) == dataclasses.asdict(declared.using())


def test_pickles_by_name():
    called = handlers.with_every_option.using(delay=5, idempotency_key="k", priority=1)
    assert pickle.loads(pickle.dumps(called)) == called
    assert b"with_every_option" not in pickle.dumps(called)


@pytest.mark.parametrize(
    ("attempt", "delay"), [(1, 10.0), (2, 20.0), (3, 40.0), (4, 60.0)]
)
def test_backoff_gives_the_delay_after_an_attempt(attempt, delay):
    assert handlers.with_every_option.delay_after(attempt) == delay


def test_backoff_can_be_a_function():
    assert handlers.with_own_backoff.delay_after(4) == 12.0


def test_without_a_backoff_there_is_a_default():
    assert 0 < handlers.noop.delay_after(1) <= 2.0


@pytest.mark.parametrize(
    ("error", "reaction"),
    [
        (KeyError("k"), 5),
        (IndexError(), "give_up"),
        (ConnectionResetError(), 60.0),
        (FileNotFoundError(), "retry"),
        (ValueError(), "retry"),
    ],
)
def test_the_nearest_class_of_an_exception_counts(error, reaction):
    assert handlers.with_every_option.reaction_to(error) == reaction


def test_a_policy_is_not_changed_afterwards(clean_registry):
    policy: dict[type[BaseException], Literal["retry", "give_up"]] = {
        ValueError: "give_up"
    }
    declared = task(on_exception=policy)(handlers.plain)
    policy[ValueError] = "retry"
    assert declared.reaction_to(ValueError()) == "give_up"


# --- refusals -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (any, "is no function"),
        (Backoff, "is no function"),
        ("mail", "is no function, but of type str"),
        (handlers.noop, "is no function, but of type QueueTask"),
        (handlers.Holder().method, "is no function, but of type method"),
        (handlers.Holder.method, "is a method"),
        (handlers.Holder.static, "is a method"),
        (handlers.a_lambda, "A lambda has no name"),
        (handlers.make_nested(), "made inside another function"),
    ],
)
def test_refuses_what_no_worker_can_import(function, reason):  # DJG-17
    with pytest.raises(InvalidTask) as refusal:
        task()(function)
    message = str(refusal.value)
    assert message.startswith("Task function must be defined at a module level.")
    assert reason in message
    assert "`tasks` module" in message


@pytest.mark.parametrize("name", ["__main__", None, "no.such.module", "tests"])
def test_refuses_functions_of_scripts_and_shells(name):  # DJG-17
    namespace = {"__name__": name}
    exec("def typed_in(): pass", namespace)
    with pytest.raises(InvalidTask, match=r"in __main__|in no module"):
        task(namespace["typed_in"])


def test_refuses_generators():
    with pytest.raises(InvalidTask, match="generator"):
        task(handlers.generator)


def test_refuses_a_context_that_has_no_place():
    with pytest.raises(
        InvalidTask, match="does not have a first argument of 'context'"
    ):
        task(takes_context=True)(handlers.plain)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("name", "", "name: must not be empty"),
        ("name", 5, "name: must be a str"),
        ("name", "a\0b", "name: .* NUL"),
        ("name", "a" * 201, "name: must have at most 200 characters"),
        ("queue", "", "queue: must not be empty"),
        ("queue", 5, "queue: must be a str"),
        ("queue", "two words", "queue: .* white space"),
        ("priority", 101, "priority must be a whole number between -100 and 100"),
        ("priority", -101, "priority must be a whole number between -100 and 100"),
        ("priority", 3.1, "priority must be a whole number"),
        ("priority", 5.0, "priority must be a whole number"),
        ("priority", "5", "priority must be a whole number"),
        pytest.param(
            "priority", 10**5000, "priority must be a whole number", id="endless"
        ),
        ("priority", True, "priority must be a whole number"),
        ("priority", float("nan"), "priority must be a whole number"),
        ("max_attempts", 0, "max_attempts: "),
        ("max_attempts", 10_001, "max_attempts: "),
        ("max_attempts", 2.0, "max_attempts: must be an int"),
        ("max_attempts", True, "max_attempts: must be an int"),
        ("backoff", 5, "backoff: must be a Backoff"),
        ("backoff", Backoff, "backoff: must be a Backoff"),
        ("backoff", {"base": 1}, "backoff: must be a Backoff"),
        ("cancel", "interupt", "cancel: must be .* Did you mean 'interrupt'"),
        ("cancel", True, "cancel: must be 'cooperative' or 'interrupt', not True"),
        ("on_exception", [ValueError], "on_exception: must be a dict"),
        ("on_exception", {"ValueError": 1}, "on_exception: .* exception class"),
        ("on_exception", {ValueError(): 1}, "on_exception: .* exception class"),
        ("on_exception", {int: 1}, "on_exception: .* exception class"),
        ("on_exception", {ValueError: "giveup"}, "on_exception: ValueError: must be"),
        ("on_exception", {ValueError: -1}, "on_exception: .*0 to"),
        ("on_exception", {ValueError: None}, "on_exception: "),
        ("timeout", 0, "timeout: "),
        ("timeout", -1, "timeout: "),
        ("timeout", float("inf"), "timeout: "),
        ("timeout", float("nan"), "timeout: "),
        ("timeout", "5", "timeout: must be seconds"),
        ("timeout", timedelta(days=400), "timeout: "),
        ("takes_context", "yes", "takes_context: must be True or False"),
    ],
)
def test_refuses_wrong_values_by_the_name_of_the_option(option, value, words):
    with pytest.raises(InvalidTask, match=words):
        task(**{option: value})(handlers.plain)


@pytest.mark.parametrize(
    ("option", "nearest"),
    [("priorty", "priority"), ("max_atempts", "max_attempts"), ("time_out", "timeout")],
)
def test_an_unknown_option_gets_a_suggestion(option, nearest):
    with pytest.raises(
        TypeError, match=f"@task has no option .* Did you mean {nearest!r}"
    ):
        task(**{option: 1})  # type: ignore[call-overload]


def test_an_option_like_none_gets_the_list():
    with pytest.raises(TypeError, match="Known: name, queue"):
        task(zzz=1)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "option", ["run_after", "run_at", "delay", "idempotency_key", "unique_key"]
)
def test_options_of_one_call_are_not_for_the_decorator(option):
    with pytest.raises(TypeError, match="cannot be defined statically with the @task"):
        task(**{option: 1})  # type: ignore[call-overload]


def test_a_refused_task_is_not_registered(clean_registry):
    before = clean_registry.names()
    with pytest.raises(InvalidTask):
        task(name="refused", priority=500)(handlers.plain)
    assert clean_registry.names() == before
