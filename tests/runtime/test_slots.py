import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptrail.runtime.slots import MAX_VALUE_CHARS, bind, canonical_slots, remove_slots, slot_value, slots


def test_a_slot_is_bound_by_its_exact_token() -> None:
    bound = bind("Is <dep:1> older than <dep:10>?", {1: "Ada", 10: "Charles"})
    assert bound == "Is Ada older than Charles?"


def test_what_an_answer_contains_is_never_scanned_again() -> None:
    assert bind("Who is <dep:0>?", {0: "<dep:2>", 2: "Eve"}) == "Who is <dep:2>?"


@pytest.mark.parametrize(
    "text", ["costs $100", r"\1 and \g<0>", "{0} and %s", "<dep:01>", "<dep:-1>", "< dep:1>", "<DEP:1>"]
)
def test_other_text_is_left_alone(text: str) -> None:
    assert bind(text, {0: "x", 1: "y"}) == text


def test_values_may_hold_any_replacement_syntax() -> None:
    assert bind("<dep:0>", {0: r"$100 \1 \g<0> {x}"}) == r"$100 \1 \g<0> {x}"


def test_slots_are_listed_once_in_order() -> None:
    assert slots("<dep:3> <dep:1> <dep:3>") == (3, 1)


def test_near_misses_become_exact() -> None:
    assert canonical_slots("<Dep: 1> <dep:step2> < dep : 3 >") == "<dep:1> <dep:2> <dep:3>"


def test_slots_without_a_place_are_taken_out() -> None:
    assert remove_slots("Who is  <dep:4> of <dep:2>?", {2: 0}) == "Who is of <dep:0>?"


def test_a_value_is_one_short_line() -> None:
    assert slot_value(" Paris,\n\tFrance\u2028. ") == "Paris, France"
    assert len(slot_value("word " * 100)) <= MAX_VALUE_CHARS


@given(st.text(), st.dictionaries(st.integers(0, 12), st.text(), max_size=5))
def test_binding_is_one_pass(text: str, values: dict[int, str]) -> None:
    pieces = re.split(r"(<dep:(?:0|[1-9][0-9]{0,5})>)", text)
    expected = "".join(values.get(int(p[5:-1]), p) if i % 2 else p for i, p in enumerate(pieces))
    assert bind(text, values) == expected


@given(st.text())
def test_a_value_never_breaks_a_line(text: str) -> None:
    assert len(slot_value(text).splitlines()) <= 1
