"""Arguments, results and request bodies as JSON."""

import enum
import json
import math
import sys
from collections import OrderedDict, UserDict, UserList
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest
from django.db import models
from django.test.utils import isolate_apps
from django.utils.functional import SimpleLazyObject
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st

from pgqueue_django import limits
from pgqueue_django.exceptions import InvalidJob, InvalidJobType
from pgqueue_django.serialization import (
    dump_args,
    dump_kwargs,
    dump_result,
    load_args,
    load_kwargs,
    load_result,
    parse_body,
)

STORABLE_TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0")
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | STORABLE_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(STORABLE_TEXT, inner),
    max_leaves=20,
)
BIG = 10 ** (limits.NUMBER_DIGITS - 1)


class Size(enum.StrEnum):
    SMALL = "s"


class Level(enum.IntEnum):
    LOW = 1


class Colour(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    a: int
    b: int


@dataclass
class Point:
    x: int


def nested(levels):
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


# Writing


def test_no_arguments_are_the_empty_list_and_object():
    assert (dump_args(()), dump_args([]), dump_kwargs({})) == ("[]", "[]", "{}")


def test_writes_compact_text_that_keeps_its_characters():
    assert dump_kwargs({"a": [1, None, True], "ä": "ö\n"}) == (
        '{"a":[1,null,true],"ä":"ö\\n"}'
    )


@given(VALUES)
def test_what_is_written_reads_back_the_same(value):
    assert load_result(dump_result(value)) == value
    assert load_args(dump_args([value])) == [value]
    assert load_kwargs(dump_kwargs({"value": value})) == {"value": value}
    assert parse_body(dump_result(value).encode()) == value


@given(VALUES)
def test_any_reader_of_json_reads_the_same(value):
    assert json.loads(dump_result(value)) == value


def as_jsonb_gives_it(number):
    """Write a number out as PostgreSQL's numeric does, which is what jsonb keeps."""
    return format(Decimal(number), "f")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_stays_a_float_in_jsonb(number):
    text = dump_result(number)
    assert as_jsonb_gives_it(text) == text
    assert type(load_result(text)) is float


@pytest.mark.parametrize(
    "number", [1e16, 1e22, 1e23, -1e300, 5e-324, sys.float_info.max]
)
def test_a_float_with_an_exponent_is_written_out(number):
    text = dump_result(number)
    assert "e" not in text
    assert "." in text
    assert load_result(text) == number


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, (2,)), [1, [2]]),
        (Pair(1, 2), [1, 2]),
        (UserList([1]), [1]),
        (range(3), [0, 1, 2]),
        (UserDict({"a": 1}), {"a": 1}),
        (OrderedDict(a=1), {"a": 1}),
        ({Size.SMALL: Level.LOW}, {"s": 1}),
        (Size.SMALL, "s"),
        (mark_safe("<b>"), "<b>"),
        (True, True),
    ],
)
def test_look_alikes_become_plain_values(value, plain):
    """PAY-11: a tuple comes back as a list."""
    assert load_result(dump_result(value)) == plain


def test_a_subclass_has_no_say_in_what_is_written():
    class Odd(str):
        __slots__ = ()

        def __contains__(self, _other):
            return False

        def __str__(self):
            raise RuntimeError

    assert dump_result(Odd("a")) == '"a"'
    with pytest.raises(InvalidJob, match="NUL"):
        dump_result(Odd("\0"))


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), "isoformat"),
        (date(2026, 1, 1), "isoformat"),
        (timedelta(1), "total_seconds"),
        (UUID(int=1), "str"),
        (Decimal("0.10"), "str"),
        (Path("x"), "str"),
        (b"\xff", "decode"),
        (bytearray(), "decode"),
        ({1}, "list"),
        (frozenset(), "list"),
        (gettext_lazy("hello"), "str"),
        (Colour.RED, "value"),
        (Point(1), "asdict"),
        (len, "name"),
        (object(), "pass None, bool"),
        (1j, "pass None, bool"),
        (SimpleLazyObject(object), "pass None, bool"),
        (iter(()), "pass None, bool"),
    ],
)
def test_refuses_other_types_with_advice(value, advice):
    """PAY-09: the error names the argument and what to pass."""
    with pytest.raises(InvalidJobType, match=advice) as caught:
        dump_kwargs({"a": [0, {"b": value}]})
    assert caught.value.field == "kwargs.a[1].b"
    assert f"Unsupported type: {type(value)}" in str(caught.value)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)


@isolate_apps()
def test_refuses_models_and_querysets_with_advice():
    class Thing(models.Model):  # noqa: DJ008
        class Meta:
            app_label = "values"

    with pytest.raises(InvalidJobType, match="primary key"):
        dump_args([Thing(pk=1)])
    with pytest.raises(InvalidJobType, match="list of primary keys"):
        dump_args([models.QuerySet(Thing)])


@pytest.mark.parametrize("key", [0, None, True, 1.5, (1, 2)])
def test_refuses_keys_that_are_no_text(key):
    """PAY-11: JSON would make them text, and two of them could collide."""
    with pytest.raises(InvalidJobType, match="keys must be str") as caught:
        dump_kwargs({"m": {"a": {key: 1}}})
    assert caught.value.field == "kwargs.m.a"


def test_refuses_a_key_that_is_there_twice():
    """PAY-11: keys that collide are an error, never a loss."""

    class Twice(Mapping[str, int]):
        __iter__ = __len__ = __getitem__ = lambda *_: 2  # type: ignore[assignment]

        def items(self):
            return [("a", 1), ("a", 2)]

    with pytest.raises(InvalidJob, match="'a' twice"):
        dump_kwargs({"m": Twice()})


@pytest.mark.parametrize(("bad", "what"), [("a\0b", "NUL"), ("a\ud800b", "surrogate")])
def test_refuses_unstorable_text_by_its_path(bad, what):
    """PAY-01: the error names the field, two levels down and in keys too."""
    for kwargs, field in [
        ({"note": bad}, "kwargs.note"),
        ({"items": [1, ["ä", bad]]}, "kwargs.items[1][1]"),
        ({"a": {bad: 1}}, f"kwargs.a[{bad!r}]"),
        ({bad: 1}, f"kwargs[{bad!r}]"),
    ]:
        with pytest.raises(InvalidJob, match=what) as caught:
            dump_kwargs(kwargs)
        assert caught.value.field == field
        str(caught.value).encode()


def test_an_escaped_backslash_is_no_nul():
    assert load_result(dump_result("\\u0000 \\ud800")) == "\\u0000 \\ud800"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_refuses_numbers_that_are_not_finite(number):
    with pytest.raises(InvalidJob, match="no JSON number") as caught:
        dump_args([number])
    assert caught.value.field == "args[0]"


def test_takes_integers_up_to_the_limit_and_no_further():
    """PAY-07: ValueError for Python."""
    assert load_result(dump_result(BIG)) == BIG
    assert load_result(dump_result(-BIG)) == -BIG
    for number in (10 * BIG, -10 * BIG, 10**5000, 1 << 10_000_000):
        with pytest.raises(InvalidJob, match="1,000 digits") as caught:
            dump_kwargs({"n": number})
        assert caught.value.field == "kwargs.n"


def test_an_interpreter_with_a_lower_limit_gives_the_same_error():
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        with pytest.raises(InvalidJob, match="640 digits"):
            dump_result(BIG)
        with pytest.raises(InvalidJob, match="640 digits"):
            load_result("1" * 900)
    finally:
        sys.set_int_max_str_digits(before)


def test_takes_nesting_up_to_the_limit_and_no_further():
    """PAY-14: ValueError for Python."""
    deepest = nested(limits.JSON_DEPTH)
    assert load_result(dump_result(deepest)) == deepest
    for levels in (limits.JSON_DEPTH + 1, 5_000, 20_000):
        with pytest.raises(InvalidJob, match="deeper than 100") as caught:
            dump_result(nested(levels))
        assert caught.value.field == "result"


def test_siblings_do_not_add_to_the_depth():
    assert dump_result([[[]]] * 500)
    assert dump_result([{"a": {}}] * 500)


def test_a_cycle_ends_in_the_depth_error():
    cycle: list[object] = []
    cycle.append({"again": cycle})
    with pytest.raises(InvalidJob, match="deeper than"):
        dump_args(cycle)


def test_a_caller_near_the_end_of_its_stack_gets_the_depth_error():
    def down():
        try:
            return down()
        except RecursionError:
            return dump_result(nested(90))

    with pytest.raises(InvalidJob, match="deeper than"):
        down()


def test_takes_bytes_up_to_the_limit_and_no_further():
    room = limits.RESULT_BYTES - 2
    assert len(dump_result("x" * room)) == limits.RESULT_BYTES
    assert dump_result("ä" * (room // 2))
    for value in (
        "x" * (room + 1),
        "ä" * room,
        "\n" * room,
        [0] * room,
        {"k": "x" * room},
    ):
        with pytest.raises(InvalidJob, match="more than 1,048,576 bytes") as caught:
            dump_result(value)
        assert caught.value.field == "result"
    many = {f"{number:06}": 1 for number in range(95_000)}
    assert load_kwargs(dump_kwargs(many)) == many


def test_shared_and_endless_values_take_bounded_work():
    laughs: object = "ha"
    for _ in range(90):
        laughs = [laughs, laughs]
    for value in (
        laughs,
        range(10**15),
        ["x" * 900_000] * 10**6,
        [{"k" * 90: 0}] * 10**6,
    ):
        with pytest.raises(InvalidJob, match="bytes as JSON"):
            dump_result(value)


def test_a_long_path_is_cut():
    deep: object = object()
    for _ in range(50):
        deep = {"a": deep}
    with pytest.raises(InvalidJobType) as caught:
        dump_kwargs({"k" * 500_000: deep})
    assert len(caught.value.field) < 200
    assert caught.value.field.startswith("kwargs['kkk")
    assert caught.value.field.endswith(".a…")


@pytest.mark.parametrize("args", ["abc", b"abc", {"a": 1}, {1}, 5, None, iter(())])
def test_arguments_must_be_a_list(args):
    with pytest.raises(InvalidJobType, match="args: must be a list or tuple"):
        dump_args(args)


@pytest.mark.parametrize("kwargs", ["abc", [], [("a", 1)], 5, None])
def test_keyword_arguments_must_be_a_dict(kwargs):
    with pytest.raises(InvalidJobType, match="payload: must be a dict"):
        dump_kwargs(kwargs, field="payload")


# Reading what is stored


@pytest.mark.parametrize(
    "text",
    [
        "[" * 20_000 + "]" * 20_000,
        "[" * 101 + "]" * 101,
        '{"a":' * 6_000 + "1" + "}" * 6_000,
        '[{"a":' * 51 + "1" + "}]" * 51,
        '["\\"[[[", ' + "[" * 100 + "]" * 101,
        "[" * 20_000,
    ],
)
def test_refuses_to_read_what_is_too_deep(text):
    """PAY-14: what raw SQL has put there ends in a clean error."""
    for load in (load_args, load_kwargs, load_result):
        with pytest.raises(InvalidJob, match="deeper than 100"):
            load(text)


def test_brackets_in_texts_are_not_depth():
    value = ["[" * 500, '\\"{' * 500, ["]", "\\"], {"{" * 200: "\\\\"}]
    assert load_args(json.dumps(value)) == value


def test_many_brackets_side_by_side_are_not_depth():
    value = [[{"a": ['"', "\\"]}]] * 1000
    assert load_args(json.dumps(value)) == value


@pytest.mark.parametrize(
    "text", ["1" + "0" * 5000, "-" + "9" * 1001, f"1{'0' * 400}.5", "0." + "1" * 1000]
)
def test_refuses_to_read_numbers_that_are_too_long_or_large(text):
    """PAY-07: jsonb accepts such a number; the worker gets a clean error."""
    with pytest.raises(InvalidJob, match="kwargs: has "):
        load_kwargs(f'{{"n": {text}}}')


def test_reads_the_longest_number():
    assert load_args(f"[{BIG}, {-BIG}]") == [BIG, -BIG]
    assert load_args(f"[{BIG}, 0.5]") == [BIG, 0.5]


@pytest.mark.parametrize(
    "text", ["", "{}", "1", "null", '"[]"', "[", "[1,]", "[NaN]", "[] []"]
)
def test_refuses_to_read_arguments_that_are_no_list(text):
    with pytest.raises(InvalidJob, match=r"^args: "):
        load_args(text)


@pytest.mark.parametrize(
    "text", ["", "[]", "1", "null", "{", "{1: 2}", '{"a": Infinity}']
)
def test_refuses_to_read_keyword_arguments_that_are_no_object(text):
    with pytest.raises(InvalidJob, match=r"^kwargs: "):
        load_kwargs(text)


def test_each_read_makes_new_containers():
    assert load_args("[]") is not load_args("[]")
    assert load_kwargs("{}") is not load_kwargs("{}")


# Request bodies


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"{} {}", "not valid JSON"),
        (b"{'a': 1}", "not valid JSON"),
        (b'{"a": "\n"}', "not valid JSON"),
        (b"[01]", "not valid JSON"),
        (b"[1_0]", "not valid JSON"),
        ("[\u0661]".encode(), "not valid JSON"),
        (b"[NaN]", "NaN, which is no JSON number"),
        (b"[-Infinity]", "-Infinity, which is no JSON number"),
        (b"[1e400]", "too large"),
        (b"[-1e400]", "too large"),
        (b"\xff", "not UTF-8 .at byte 0"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        ("{}".encode("utf-16"), "not UTF-8"),
        (b"[" * 20_000 + b"]" * 20_000, "deeper than 100"),
        (b'{"payload": {"n": 1' + b"0" * 5000 + b"}}", "1,000 digits"),
        (b"1." + b"0" * 5000, "1,000 digits"),
        (b'{"payload": {"a": 1, "a": 2}}', "'a' twice"),
        (b'{"task": "x", "task": "y"}', "'task' twice"),
        (rb'{"a": 1, "\u0061": 2}', "'a' twice"),
    ],
)
def test_refuses_bodies_that_are_not_strict_json(data, what):
    """PAY-07, PAY-14 and PAY-17: 400 for the API."""
    with pytest.raises(InvalidJob, match=f"^body: .*{what}"):
        parse_body(data)


def test_reads_a_body():
    assert parse_body(b' {"a": [1, 2.5, "\\u00e4", null]}\r\n') == {
        "a": [1, 2.5, "ä", None]
    }


def value_or_error(read, source):
    try:
        read(source)
    except InvalidJob as error:
        return str(error)
    return ""


@given(st.binary(max_size=50))
def test_any_bytes_give_a_value_or_a_clean_error(data):
    assert len(value_or_error(parse_body, data)) < 300


@given(st.text('[]{}",:\\0aue1.-+ ', max_size=300))
def test_any_brackets_give_a_value_or_a_clean_error(text):
    assert len(value_or_error(load_result, text)) < 300
    assert len(value_or_error(parse_body, text.encode())) < 300
