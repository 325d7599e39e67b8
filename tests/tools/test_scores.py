"""The formulas of the views and fusions, by hand-worked cases and by what must always hold."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptrail.tools.fusion import BASELINES, bounded, comb_mnz, equal_mean, ranked, rra, rrf
from hoptrail.tools.scores import Support, entity_scores, min_max, relation_scores, specificity

KEYS = st.sampled_from("abcdefgh")
SCORES = st.dictionaries(KEYS, st.floats(-1, 1), max_size=8)
UNIT = st.dictionaries(KEYS, st.floats(0, 1), max_size=8)
HITS = st.lists(st.builds(Support, st.floats(-1, 1), st.lists(KEYS, unique=True, min_size=1)), max_size=16)


def test_min_max() -> None:
    assert min_max({}) == {}
    assert min_max({"a": 3.0, "b": 3.0}) == {"a": 1.0, "b": 1.0}
    assert min_max({"a": 1.0, "b": 2.0, "c": 5.0}) == {"a": 0.0, "b": 0.25, "c": 1.0}
    assert min_max({"a": math.nan, "b": math.inf, "c": 2.0}) == {"c": 1.0}


@given(SCORES)
def test_min_max_keeps_the_order_within_zero_and_one(scores: dict[str, float]) -> None:
    scaled = min_max(scores)
    assert scaled.keys() == scores.keys()
    assert all(0 <= value <= 1 for value in scaled.values())
    assert all(scaled[a] <= scaled[b] for a in scores for b in scores if scores[a] < scores[b])


def test_specificity_is_one_for_a_single_passage_and_falls() -> None:
    assert specificity(1, 100) == pytest.approx(1.0)
    assert specificity(1, 1) == pytest.approx(1.0)
    values = [specificity(n, 100) for n in range(1, 101)]
    assert values == sorted(values, reverse=True)
    assert 0 < values[-1] < 0.01


def test_entity_scores_by_hand() -> None:
    hits = [Support(0.8, ["a"]), Support(0.4, ["a", "b"]), Support(-0.3, ["c"])]
    one, two = specificity(1, 10), specificity(2, 10)
    raw_a = 0.8 * (0.8 * one + 0.4 * two) / 1.2
    raw_b = 0.4 * two
    assert entity_scores(hits, 10) == pytest.approx({"a": 1.0, "b": 0.0})
    third = entity_scores([*hits, Support(0.1, ["d"])], 10)
    low = 0.1 * one
    assert third["b"] == pytest.approx((raw_b - low) / (raw_a - low))


def test_without_specificity_only_the_best_weight_counts() -> None:
    hits = [Support(0.9, list("abcdef")), Support(0.5, ["g"]), Support(0.3, ["h"])]
    assert entity_scores(hits, 10, specific=False)["a"] == 1.0
    assert entity_scores(hits, 10, specific=False)["g"] == pytest.approx((0.5 - 0.3) / 0.6)
    assert entity_scores(hits, 10)["g"] > entity_scores(hits, 10, specific=False)["g"]


def test_residual_pooling_by_hand() -> None:
    hits = [Support(0.9, ["a"]), Support(0.6, ["a", "b"]), Support(0.3, ["c"])]
    # The background is 0.6: what is no better vanishes, and b with it.
    assert relation_scores(hits) == {"a": 1.0}
    more = [*hits, Support(0.1, ["c"]), Support(0.1, ["d"])]
    mean = 2.0 / 5
    a = (0.9 - mean) + 0.5 * (0.6 - mean)
    b = 0.6 - mean
    assert relation_scores(more) == pytest.approx({"a": 1.0, "b": 0.0})
    assert a > b
    assert relation_scores(more, residual=False) == pytest.approx({"a": 1.0, "b": 0.5 / 0.8, "c": 0.2 / 0.8, "d": 0.0})


def test_diffuse_relations_vanish_and_a_single_one_stands() -> None:
    assert relation_scores([Support(0.5, ["a"]), Support(0.5, ["b"])]) == {}
    assert relation_scores([Support(0.5, ["a"])]) == {"a": 1.0}
    assert relation_scores([]) == {}


@given(HITS)
def test_views_are_normalised_and_of_the_hits_passages(hits: list[Support]) -> None:
    for scores in (entity_scores(hits, 8), entity_scores(hits, 8, specific=False), relation_scores(hits)):
        assert all(0 <= value <= 1 for value in scores.values())
        assert scores.keys() <= {key for hit in hits for key in hit.passages}


@given(UNIT, UNIT, UNIT, st.floats(0, 0.99))
def test_the_bonus_is_bounded_and_never_falls(
    text: dict[str, float], entity: dict[str, float], relation: dict[str, float], bound: float
) -> None:
    fused = bounded({"text": text}, {"entity": entity, "relation": relation}, weights={}, bound=bound)
    assert fused.keys() == text.keys() | entity.keys() | relation.keys()
    for key, score in fused.items():
        bonus = score - text.get(key, 0.0)
        assert -1e-12 <= bonus <= bound + 1e-12
        by_formula = bound * (1 - (1 - entity.get(key, 0.0)) * (1 - relation.get(key, 0.0)))
        assert bonus == pytest.approx(by_formula, abs=1e-12)


def test_weights() -> None:
    views = {"text": {"a": 1.0}, "lexical": {"a": 0.5, "b": 1.0}}
    fused = bounded(views, {"entity": {"b": 1.0}}, weights={"lexical": 0.5, "entity": 0.5}, bound=0.8)
    assert fused == pytest.approx({"a": 1.25, "b": 0.5 + 0.8 * 0.5})


def test_baselines_by_hand() -> None:
    views = {"text": {"a": 1.0, "b": 0.5}, "entity": {"b": 1.0, "c": 0.0}}
    assert equal_mean(views) == pytest.approx({"a": 0.5, "b": 0.75, "c": 0.0})
    assert comb_mnz(views) == pytest.approx({"a": 1.0, "b": 3.0, "c": 0.0})
    assert rrf(views) == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 62})
    # Of three known passages b has the shares 1/3 and 2/3: the chance of one so good is 1 - (2/3)^2, of both 4/9.
    assert rra(views)["b"] == pytest.approx(-math.log(min(2 * 4 / 9, 1)))
    assert [key for key, _ in ranked(rra(views), 1)] == ["b"]


@pytest.mark.parametrize("name", BASELINES)
@given(views=st.dictionaries(st.sampled_from(["text", "entity", "relation"]), UNIT, min_size=1))
def test_baselines_know_what_the_views_know(name: str, views: dict[str, dict[str, float]]) -> None:
    scores = BASELINES[name](views)  # type: ignore[index]
    assert scores.keys() == {key for view in views.values() for key in view}
    assert all(math.isfinite(value) for value in scores.values())


def test_ties_are_ranked_by_id() -> None:
    assert ranked({"b": 1.0, "a": 1.0, "c": 2.0}, 2) == [("c", 2.0), ("a", 1.0)]
