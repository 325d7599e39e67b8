from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptrail.errors import PlanError
from hoptrail.runtime.plan import Plan
from hoptrail.runtime.repair import RawPlan, Repaired, repair_plan


def repair(steps: Any, max_steps: int = 12) -> Repaired:
    raw = RawPlan.model_validate({"steps": steps})
    return repair_plan(raw, "Q?", tools=["text", "lexical"], max_steps=max_steps)


def step(identity: Any, question: Any, depends_on: Any = (), tool: Any = "text") -> dict[str, Any]:
    return {"id": identity, "question": question, "depends_on": list(depends_on), "tool": tool}


def shape(plan: Plan) -> list[tuple[str, tuple[int, ...]]]:
    return [(s.question, s.depends_on) for s in plan.steps]


def test_a_good_plan_is_left_alone() -> None:
    fixed = repair([step(0, "Who sang A?"), step(1, "Where was <dep:0> born?", [0])])
    assert fixed.repairs == ()
    assert shape(fixed.plan) == [("Who sang A?", ()), ("Where was <dep:0> born?", (0,))]


def test_a_slot_adds_its_dependency() -> None:
    fixed = repair([step(0, "a?"), step(1, "b <dep:0>?")])
    assert fixed.plan.steps[1].depends_on == (0,)
    assert "the dependency was added" in fixed.repairs[0]


def test_one_based_ids_are_numbered_anew_with_their_slots() -> None:
    fixed = repair([step(1, "a?"), step(2, "b <dep:1>?", [1]), step(10, "c <dep:1> <dep:2>?", [1, 2])])
    assert shape(fixed.plan) == [("a?", ()), ("b <dep:0>?", (0,)), ("c <dep:0> <dep:1>?", (0, 1))]


def test_a_forward_dependency_is_put_in_order() -> None:
    fixed = repair([step(0, "Where was <dep:1> born?", [1]), step(1, "Who sang A?")])
    assert shape(fixed.plan) == [("Who sang A?", ()), ("Where was <dep:0> born?", (0,))]


def test_a_self_dependency_is_left_out_with_its_slot() -> None:
    fixed = repair([step(0, "Who is <dep:0> there?", [0])])
    assert shape(fixed.plan) == [("Who is there?", ())]


def test_slots_to_nowhere_are_taken_out() -> None:
    fixed = repair([step(0, "Who sang <dep:7>?", [9])])
    assert shape(fixed.plan) == [("Who sang ?", ())]
    assert len(fixed.repairs) == 2


def test_duplicate_ids_refer_to_the_nearest_earlier_step() -> None:
    fixed = repair([step(0, "a?"), step(0, "b?"), step(1, "c <dep:0>?", [0])])
    assert shape(fixed.plan) == [("a?", ()), ("b?", ()), ("c <dep:1>?", (1,))]


def test_an_unknown_tool_takes_the_default() -> None:
    fixed = repair([step(0, "a?", tool="web_search")])
    assert fixed.plan.steps[0].tool is None
    assert "unknown tool 'web_search'" in fixed.repairs[0]


def test_too_many_steps_are_cut() -> None:
    fixed = repair([step(i, f"q{i}?", [i - 1] if i else []) for i in range(200)])
    assert len(fixed.plan.steps) == 12
    assert "200 steps" in fixed.repairs[0]


@pytest.mark.parametrize(
    "steps",
    [
        [],
        "prose",
        None,
        {},
        [step(0, "")],
        [step(0, "<dep:1>"), step(1, "   ")],
        [1, 2, None],
        [step(0, "a <dep:1>?", [1]), step(1, "b <dep:0>?", [0])],
        [step(0, "a?", [2]), step(1, "b?", [0]), step(2, "c?", [1])],
    ],
)
def test_an_unusable_plan_is_refused(steps: Any) -> None:
    with pytest.raises(PlanError):
        repair(steps)


@pytest.mark.parametrize(("given_id", "meant"), [("1", 1), (1.0, 1), ("step 1", 1), ("s1", 1)])
def test_ids_may_be_written_in_many_ways(given_id: Any, meant: int) -> None:
    fixed = repair([step(0, "a?"), step(given_id, "b?"), step(2, "c <dep:1>?", [given_id])])
    assert fixed.plan.steps[2].depends_on == (meant,)


@pytest.mark.parametrize("identity", [[1], {}, True, None, "x"])
def test_an_id_of_another_kind_takes_its_position(identity: Any) -> None:
    assert [s.id for s in repair([step(identity, "a?"), step(1, "b <dep:0>?", [0])]).plan.steps] == [0, 1]


def test_an_endless_plan_is_cut_before_it_is_looked_at() -> None:
    fixed = repair([step(i, f"q{i}?", range(i)) for i in range(3_000)])
    assert len(fixed.plan.steps) == 12


def test_bare_strings_are_steps() -> None:
    assert shape(repair(["a?", "b <dep:0>?"]).plan) == [("a?", ()), ("b <dep:0>?", (0,))]


def test_money_and_ten_are_not_slots() -> None:
    fixed = repair(
        [step(i, f"What costs ${i}00?") for i in range(11)] + [step(11, "Is <dep:1> $100 or <dep:10>?", [1, 10])]
    )
    assert fixed.plan.steps[11].question == "Is <dep:1> $100 or <dep:10>?"


scalars = st.none() | st.just([1]) | st.just({}) | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
messy_steps = st.lists(
    scalars
    | st.fixed_dictionaries(
        {},
        optional={
            "id": scalars | st.integers(0, 6),
            "question": scalars | st.sampled_from(["a <dep:0>?", "b <dep:1> <dep:3>?", "c?", "<dep:2>"]),
            "depends_on": scalars | st.lists(scalars | st.integers(0, 6), max_size=4),
            "tool": scalars,
        },
    ),
    max_size=8,
)


@given(messy_steps)
def test_any_input_gives_a_valid_plan_or_a_plan_error(steps: Any) -> None:
    try:
        fixed = repair(steps)
    except PlanError:
        return
    # Building a Plan checks every rule; building it again from its own data must therefore succeed.
    assert Plan.model_validate(fixed.plan.model_dump()) == fixed.plan
    assert all(parent < s.id for s in fixed.plan.steps for parent in s.depends_on)
