"""Exceptions as text that can always be stored."""

import json
import pickle
import socket
import traceback
from dataclasses import FrozenInstanceError
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgqueue_django import failures, limits
from pgqueue_django.failures import Failure, clean_text


class NeedsTwo(Exception):
    def __init__(self, a, b):
        super().__init__(a)
        self.b = b


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no")


class Leaving(Exception):
    def __str__(self):
        raise SystemExit


class EndlessRepr(Exception):
    def __repr__(self):
        return f"{self!r}"

    __str__ = __repr__


class NoText(Exception):
    def __str__(self):
        return 5  # noqa: PLE0307


class OddText(str):
    __slots__ = ()

    def _no(self, *_):
        raise RuntimeError

    __str__ = __getitem__ = __format__ = __len__ = __add__ = encode = _no


class TextOfAnOddClass(Exception):
    def __str__(self):
        return OddText("odd\0")


class OddMeta(type):
    def __getattribute__(cls, name):
        if name in {"__module__", "__qualname__", "__name__"}:
            raise RuntimeError
        return super().__getattribute__(name)

    def __repr__(cls):
        raise RuntimeError

    def __instancecheck__(cls, _instance):
        raise RuntimeError


class OfAnOddClass(Exception, metaclass=OddMeta):
    pass


class OddAttributes(Exception):
    def __getattribute__(self, _name):
        raise KeyboardInterrupt


class OddClass(Exception):
    __class__ = property(lambda _self: 1 / 0)


class OddNotes(Exception):
    __notes__ = property(lambda _self: 1 / 0)


def raised(exc):
    try:
        raise exc
    except BaseException as caught:  # noqa: BLE001
        return caught


def chained(count, cause):
    last = None
    for number in range(count):
        link = ValueError(f"link {number}")
        if cause:
            link.__cause__ = last
        else:
            link.__context__ = last
        last = raised(link)
    return last


def assert_storable(failure):
    entry = json.loads(failure.as_json())
    assert entry == {
        "exception": failure.exception,
        "message": failure.message,
        "traceback": failure.traceback,
    }
    assert "\\u0000" not in failure.as_json()
    assert len(failure.exception.encode()) <= limits.ERROR_CLASS_BYTES
    assert len(failure.message.encode()) <= limits.ERROR_MESSAGE_BYTES
    assert len(failure.traceback.encode()) <= limits.ERROR_TRACEBACK_BYTES


def test_names_the_class_the_message_and_the_frames():
    failure = Failure.of(raised(ValueError("wrong")))
    assert failure.exception == "builtins.ValueError"
    assert failure.message == "wrong"
    assert failure.traceback.startswith("Traceback (most recent call last):\n")
    assert "in raised" in failure.traceback
    assert failure.traceback.endswith("\nValueError: wrong\n")


@pytest.mark.parametrize(
    "make", [lambda: chained(3, cause=True), lambda: chained(3, cause=False)]
)
def test_formats_as_the_standard_library_does(make):
    exc = make()
    assert Failure.of(exc).traceback == "".join(traceback.format_exception(exc))


def test_a_nested_class_has_its_qualified_name():
    class Inner(Exception):
        pass

    path = Failure.of(Inner()).exception
    assert path == (
        f"{__name__}.test_a_nested_class_has_its_qualified_name.<locals>.Inner"
    )


@pytest.mark.parametrize(
    ("make", "name", "message"),
    [
        (lambda: NeedsTwo("one", 2), "NeedsTwo", "one"),
        (Unprintable, "Unprintable", "<unprintable Unprintable>"),
        (Leaving, "Leaving", "<unprintable Leaving>"),
        (EndlessRepr, "EndlessRepr", "<unprintable EndlessRepr>"),
        (NoText, "NoText", "<unprintable NoText>"),
        (TextOfAnOddClass, "TextOfAnOddClass", "odd\ufffd"),
        (lambda: OfAnOddClass("x"), "OfAnOddClass", "x"),
        (lambda: OddClass("x"), "OddClass", "x"),
        (lambda: OddNotes("x"), "OddNotes", "x"),
        (lambda: ValueError(10**5000), "ValueError", "<unprintable ValueError>"),
        (KeyboardInterrupt, "KeyboardInterrupt", ""),
        (lambda: SystemExit(3), "SystemExit", "3"),
        (lambda: ValueError("a\0b\ud800"), "ValueError", "a\ufffdb\ufffd"),
    ],
)
def test_describes_exceptions_that_will_not_be_described(make, name, message):
    """PAY-16: '<unprintable X>', and the frames all the same."""
    failure = Failure.of(raised(make()))
    assert failure.exception.endswith(f".{name}") or failure.exception == name
    assert failure.message == message
    assert "in raised" in failure.traceback
    assert name in failure.traceback.splitlines()[-1]
    assert_storable(failure)


def test_an_exception_whose_attributes_fail_keeps_its_name():
    failure = Failure.of(raised(OddAttributes("x")))
    assert failure.exception.endswith(".OddAttributes")
    assert failure.traceback == "<unprintable traceback>"
    assert_storable(failure)


def test_an_exception_may_hold_anything():
    with socket.socket() as held:
        assert "socket" in Failure.of(raised(ValueError(held))).message


@pytest.mark.parametrize("attribute", ["__module__", "__qualname__"])
@pytest.mark.parametrize("text", ["a\0\ud800", "x" * 10_000, "odd"])
@pytest.mark.parametrize("kind", [str, OddText])
def test_a_class_may_have_any_name(attribute, text, kind):
    odd = type("Odd", (Exception,), {attribute: kind(text)})
    failure = Failure.of(raised(odd("text")))
    assert failure.message == "text"
    assert clean_text(text, 200) in failure.exception
    assert_storable(failure)


@pytest.mark.parametrize("module", [None, 5, 1.5, object(), ["x"]])
def test_a_class_without_a_module_name_has_its_own_name(module):
    odd = type("Odd", (Exception,), {"__module__": module})
    assert Failure.of(raised(odd("text"))).exception == "Odd"


def test_a_huge_message_is_cut_at_a_character():
    """PAY-15: a message of 30 MB, alone and in a chain."""
    last = None
    for _ in range(50):
        link = ValueError("ä" * 15_000_000)
        link.__cause__, last = last, link
    started = perf_counter()
    failure = Failure.of(raised(last))
    assert perf_counter() - started < 1
    assert failure.message.endswith("ä…")
    assert "in raised" in failure.traceback
    assert_storable(failure)


@pytest.mark.parametrize("cause", [True, False])
def test_a_long_chain_shows_its_newest_links(cause):
    """PAY-15: a chain of 200, and one of 100,000."""
    for count in (200, 100_000 if cause else 10_000):
        exc = chained(count, cause)
        started = perf_counter()
        failure = Failure.of(exc)
        assert perf_counter() - started < 1
        assert failure.traceback.startswith("…\n")
        assert failure.traceback.endswith(f"ValueError: link {count - 1}\n")
        assert f"link {count - 2}" in failure.traceback
        assert_storable(failure)
        unlink(exc)


def unlink(exc):
    """Take a chain apart from its end: freeing it at once can exhaust the stack."""
    while exc is not None:
        older = exc.__cause__ or exc.__context__
        exc.__cause__ = exc.__context__ = None
        exc = older


def test_a_chain_that_bites_its_tail_ends():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    text = Failure.of(first).traceback
    assert text.endswith("ValueError: first\n")
    assert text.count("ValueError: second") == 1


def test_a_context_that_is_suppressed_is_left_out():
    exc = chained(2, cause=False)
    exc.__suppress_context__ = True
    assert "link 0" not in Failure.of(exc).traceback


def test_endless_recursion_shows_its_end():
    def endless(depth):
        return endless(depth + 1) + 1

    def fail():
        try:
            endless(0)
        except RecursionError as exc:
            return Failure.of(exc)

    failure = fail()
    assert failure.traceback.startswith("Traceback (most recent call last):\n  …\n")
    assert "in endless" in failure.traceback
    assert (
        "RecursionError: maximum recursion depth" in failure.traceback.splitlines()[-1]
    )
    assert_storable(failure)


def test_notes_are_shown_within_bounds():
    exc = ValueError("x")
    notes: list[object] = [f"note {number}" for number in range(10_000)]
    notes[1] = Unprintable()
    vars(exc)["__notes__"] = notes
    text = Failure.of(exc).traceback
    assert text.startswith("ValueError: x\nnote 0\nnote 2\n")
    assert "note 5" not in text


def test_a_group_shows_its_first_members():
    """PAY-16: an ExceptionGroup."""
    group = raised(ExceptionGroup("many", [raised(ValueError(n)) for n in range(1000)]))
    failure = Failure.of(group)
    assert failure.exception == "builtins.ExceptionGroup"
    assert failure.message == "many (1000 sub-exceptions)"
    lines = failure.traceback.splitlines()
    assert "ExceptionGroup: many (1000 sub-exceptions)" in lines
    assert "  +-- 1 of 1000 --" in lines
    assert "  | ValueError: 0" in lines
    assert lines[-1] == "  …"
    assert_storable(failure)


def test_nested_groups_take_bounded_work():
    group = ExceptionGroup("leaf", [chained(20, cause=True)] * 10)
    for _ in range(50):
        group = raised(ExceptionGroup("m" * 3000, [group] * 10))
    started = perf_counter()
    failure = Failure.of(group)
    assert perf_counter() - started < 1
    assert "in raised" in failure.traceback
    assert_storable(failure)


def test_a_traceback_that_cannot_be_formatted_leaves_the_rest(monkeypatch):
    def out_of_memory(*_args, **_kwargs):
        raise MemoryError

    monkeypatch.setattr(traceback, "extract_tb", out_of_memory)
    failure = Failure.of(raised(ValueError("wrong")))
    assert failure.message == "wrong"
    assert failure.traceback.endswith("<unprintable frames>\nValueError: wrong\n")


def test_the_last_resort_is_a_failure_too(monkeypatch):
    def out_of_memory(*_args, **_kwargs):
        raise MemoryError

    monkeypatch.setattr(failures, "_class_path", out_of_memory)
    failure = Failure.of(raised(ValueError("wrong")))
    assert failure == Failure("<unknown>", "<unprintable exception>", "")


def test_a_caller_at_the_end_of_its_stack_gets_a_failure():
    def down(exc):
        try:
            return down(exc)
        except RecursionError:
            return Failure.of(exc)

    assert_storable(down(raised(ValueError("wrong"))))


@pytest.mark.parametrize("filename", ["a\0b", "\ud800", "x" * 1_000_000, "/", ""])
def test_code_may_come_from_any_file(filename):
    code = compile("raise ValueError('wrong')", "<placeholder>", "exec")
    code = code.replace(co_filename=filename, co_name="odd\0")
    try:
        exec(code, {})
    except ValueError as exc:
        failure = Failure.of(exc)
    assert failure.traceback.endswith("ValueError: wrong\n")
    assert_storable(failure)


def test_links_and_members_that_never_end_are_cut():
    class Endless(Exception):
        __cause__ = property(lambda _self: Endless("again"))

    class Crowd(ExceptionGroup):
        exceptions = property(lambda _self: iter(ValueError, None))

    for exc in (Endless("first"), Crowd("first", [ValueError()])):
        failure = Failure.of(exc)
        assert "first" in failure.traceback
        assert_storable(failure)


@given(st.text(st.characters()), st.text(st.characters()), st.text(st.characters()))
def test_any_texts_make_a_storable_failure(exception, message, frames):
    assert_storable(Failure(exception, message, frames))


@given(st.text(st.characters(), max_size=3000))
def test_any_message_makes_a_storable_failure(message):
    assert_storable(Failure.of(ValueError(message)))


def test_is_a_value_that_processes_can_exchange():
    failure = Failure.of(raised(ValueError("wrong")))
    assert pickle.loads(pickle.dumps(failure)) == failure
    with pytest.raises(FrozenInstanceError):
        failure.message = "x"  # type: ignore[misc]
