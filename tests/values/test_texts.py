"""Text made storable, and values made short."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgqueue_django.texts import brief, clean_text, preview

ANY_TEXT = st.text(st.characters(), max_size=60)


def test_leaves_good_text_as_it_is():
    assert clean_text("Grüße, 🐘!\n", 100) == "Grüße, 🐘!\n"


def test_replaces_nul_and_lone_surrogates():
    assert clean_text("a\0b\ud800c\udfff", 100) == "a\ufffdb\ufffdc\ufffd"


def test_cuts_between_two_characters_and_marks_it():
    assert clean_text("äöüäöü", 8) == "äö…"
    assert clean_text("äöüäöü", 12) == "äöüäöü"


def test_keeps_the_end_when_asked():
    assert clean_text("äöüäöü", 8, keep="end") == "…öü"


def test_has_no_mark_where_there_is_no_room_for_one():
    assert clean_text("abc", 2) == "ab"
    assert clean_text("abc", 2, keep="end") == "bc"
    assert clean_text("äb", 1) == ""
    assert clean_text("abc", 0) == clean_text("abc", 0, keep="end") == ""


@pytest.mark.parametrize("keep", ["start", "end"])
@given(text=ANY_TEXT, max_bytes=st.integers(0, 80))
def test_is_always_storable_and_within_its_bytes(keep, text, max_bytes):
    cleaned = clean_text(text, max_bytes, keep=keep)
    assert "\0" not in cleaned
    assert len(cleaned.encode()) <= max_bytes


@given(text=ANY_TEXT)
def test_changes_nothing_twice(text):
    cleaned = clean_text(text, 1000)
    assert clean_text(cleaned, 1000) == cleaned
    assert len(cleaned) == len(text)


def test_a_long_text_is_not_copied_in_full():
    """PAY-15: a message of 30 MB costs no more than its limit."""
    assert clean_text("x" * 30_000_000, 10) == "xxxxxxx…"


def test_a_subclass_of_str_has_no_say():
    class Odd(str):
        __slots__ = ()

        def __getitem__(self, _key):
            raise RuntimeError

        def encode(self, *_):
            raise RuntimeError

    assert type(clean_text(Odd("plain"), 100)) is str


def test_brief_cuts_a_repr():
    assert brief("x" * 10_000_000, 10) == "'xxxxxx…"
    assert brief("a\0") == r"'a\x00'"


def test_brief_survives_any_repr():
    class Odd:
        def __repr__(self):
            return repr(self)

    assert brief(Odd()) == "<Odd>"
    assert brief(10**5000) == "<int>"


def test_preview_shows_the_start_and_the_full_length():
    assert preview("abc", 3) == "abc"
    assert preview("x" * 2000, 3) == "xxx… (2,000 characters)"
