"""JSON text for people, from texts that need be no JSON."""

import json
from datetime import timedelta
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgqueue_django.admin.pretty import pretty
from pgqueue_django.admin.spans import in_words

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_says_the_same_as_the_text(value):
    assert json.loads(pretty(json.dumps(value))) == value


@given(VALUES)
def test_looks_as_json_dumps_would_write_it(value):
    text = json.dumps(value, ensure_ascii=False)
    assert pretty(text) == json.dumps(value, ensure_ascii=False, indent=2)


@given(st.text(), st.integers(0, 30))
def test_takes_any_text(text, cut):
    pretty(text)
    pretty(json.dumps([text, {"a": text}])[:cut])


@pytest.mark.parametrize(
    "text", ["[" * 10_000, '"' + "\\" * 9_999, '[1,"a' * 2_000, "1" * 10_000]
)
def test_is_quick_and_in_proportion_whatever_the_text(text):
    began = monotonic()
    assert len(pretty(text)) < 50 * len(text)
    assert monotonic() - began < 1


@pytest.mark.parametrize(
    ("seconds", "short", "long"),
    [
        (0, "0 s", "0 s"), (-5, "0 s", "0 s"), (59.9, "59 s", "59 s"),
        (60, "1 min", "1 min"), (3_661, "1 h", "1 h 1 min"), (3_601, "1 h", "1 h"),
        (90_000, "1 d", "1 d 1 h"), (86_400 * 400, "400 d", "400 d"),
    ],
)  # fmt: skip
def test_spans_are_told_in_their_largest_units(seconds, short, long):
    span = timedelta(seconds=seconds)
    assert (in_words(span), in_words(span, units=2)) == (short, long)
