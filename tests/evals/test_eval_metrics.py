import math
import random

import pytest

from hoptrail.evals.metrics import (
    all_evidence,
    by_group,
    distinct,
    exact_match,
    interval,
    ndcg,
    p_value,
    recall,
    reciprocal_rank,
    str_acc,
    token_f1,
)

RANKED = ["x", "b", "y", "a", "z"]


def test_retrieval_measures_by_hand() -> None:
    gold = ["a", "b", "c"]
    assert recall(RANKED, gold, 3) == pytest.approx(1 / 3)
    assert recall(RANKED, gold, 5) == pytest.approx(2 / 3)
    assert all_evidence(RANKED, gold, 5) == 0
    assert all_evidence(RANKED, ["a", "b"], 3) == 0
    assert all_evidence(RANKED, ["a", "b"], 4) == 1
    assert all_evidence(RANKED, ["a", "b"]) == 1
    assert reciprocal_rank(RANKED, gold) == 1 / 2
    gain = 1 / math.log2(3) + 1 / math.log2(5)
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert ndcg(RANKED, gold, 5) == pytest.approx(gain / ideal)
    assert ndcg(RANKED, ["a", "b", "c"], 2) == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))


def test_nothing_wanted_or_nothing_found_counts_nothing() -> None:
    for measure in (recall, all_evidence, ndcg):
        assert measure(RANKED, [], 5) == 0
        assert measure([], ["a"], 5) == 0
    assert reciprocal_rank([], ["a"]) == reciprocal_rank(RANKED, ["q"]) == 0


def test_distinct_keeps_the_best_rank() -> None:
    assert distinct(["b", "a", "b", "c", "a"]) == ["b", "a", "c"]


def test_agreement_with_ir_measures() -> None:
    ir_measures = pytest.importorskip("ir_measures")
    draw = random.Random(3)  # noqa: S311 - made-up rankings
    documents = [f"d{i}" for i in range(40)]
    ranked = {f"q{i}": draw.sample(documents, 15) for i in range(60)}
    gold = {f"q{i}": draw.sample(documents, draw.randint(1, 6)) for i in range(60)}
    run = [ir_measures.ScoredDoc(q, d, -rank) for q, ids in ranked.items() for rank, d in enumerate(ids)]
    judged = [ir_measures.Qrel(q, d, 1) for q, ids in gold.items() for d in ids]
    names = {"R@5": ir_measures.R @ 5, "nDCG@10": ir_measures.nDCG @ 10, "RR": ir_measures.RR}
    theirs = {(str(m.measure), m.query_id): m.value for m in ir_measures.iter_calc(names.values(), judged, run)}
    for q, found in ranked.items():
        assert recall(found, gold[q], 5) == pytest.approx(theirs["R@5", q])
        assert ndcg(found, gold[q], 10) == pytest.approx(theirs["nDCG@10", q])
        assert reciprocal_rank(found, gold[q]) == pytest.approx(theirs["RR", q])


def test_answers_are_compared_after_normalisation() -> None:
    assert exact_match("The  Beatles!", ["beatles"]) == 1
    assert exact_match("Beatles, The", ["Rolling Stones", "The Beatles"]) == 1
    assert exact_match("the Beatles band", ["The Beatles"]) == 0
    # given: new york city (3), wanted: new york (2), 2 shared: precision 2/3, recall 1
    assert token_f1("New York City", ["York", "New York"]) == pytest.approx(0.8)
    assert token_f1("Paris", ["London"]) == token_f1("", ["London"]) == token_f1("Paris", []) == 0


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        ("It was made on August 16, 1967.", ["August 16, 1967"], 1),
        ("He is Sir Cumference", ["nobody", "sir cumference"], 1),
        ("Information not found", ["no"], 0),
        ("in the 1990s", ["1990"], 0),
        ("No, it is not", ["no"], 1),
        ("anything", [], 0),
        ("anything", ["the"], 0),
    ],
)
def test_str_acc_finds_whole_words(answer: str, gold: list[str], expected: float) -> None:
    assert str_acc(answer, gold) == expected


def test_interval_holds_the_mean_narrows_with_n_and_is_the_same_again() -> None:
    few, many = [0.0, 1.0] * 10, [0.0, 1.0] * 500
    low, high = interval(few)
    assert low < 0.5 < high
    # The normal approximation's half width is 1.96 * 0.5 / sqrt(n).
    assert (high - low) / 2 == pytest.approx(1.96 * 0.5 / math.sqrt(20), rel=0.15)
    assert interval(many)[1] - interval(many)[0] < (high - low) / 3
    assert interval(few) == (low, high) != interval(few, seed=1)
    assert interval([]) == (0.0, 0.0)


def test_p_value_is_small_for_a_steady_gain_only() -> None:
    draw = random.Random(0)  # noqa: S311 - made-up values
    base = [draw.random() for _ in range(60)]
    assert p_value([v + 0.1 + 0.05 * draw.random() for v in base], base) < 0.01
    assert p_value([v + draw.choice([-0.1, 0.1]) for v in base], base) > 0.05
    assert p_value(base, base) == 1
    # Three pairs, all won: of 8 equally likely sign patterns two are as extreme.
    assert p_value([1, 1, 1], [0, 0, 0]) == pytest.approx(0.25, abs=0.04)


def test_p_value_wants_pairs() -> None:
    assert p_value([], []) == 1
    with pytest.raises(ValueError, match="3 and 1"):
        p_value([1, 2, 3], [1])


def test_groups_have_their_own_means_and_sizes() -> None:
    rows = [{"m": 1.0}, {"m": 0.0}, {"m": 0.5}, {"m": 9.0}]
    assert by_group(rows, [2, 2, 3, None]) == {"2": {"n": 2, "m": 0.5}, "3": {"n": 1, "m": 0.5}}
