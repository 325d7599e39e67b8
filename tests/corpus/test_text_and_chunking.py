import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptrail.corpus.chunking import PASSAGE_CHARS, ROW_CHARS, split
from hoptrail.corpus.text import clean
from hoptrail.corpus.types import Document

any_text = st.text(st.characters(exclude_categories=()), max_size=300)
forms = st.sampled_from(["row", "text", "markup"])
WORDS = ["Paris", "is", "small.", "Why?", "\n\n", "# Title\n", "- item\n", "été", "東京。", "🧭"]
SHORT = "One sentence. "
words = st.lists(st.sampled_from(WORDS), max_size=900)


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


@given(any_text)
def test_clean_text_can_be_stored_and_encoded(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert "\x00" not in cleaned
    assert cleaned == clean(cleaned)


def test_clean_keeps_what_is_fine_and_marks_what_is_not() -> None:
    assert clean(" naïve 🧭 שלום\n\nx ") == "naïve 🧭 שלום\n\nx"
    assert clean("a\x00b\ud800c\udfffd") == "a b\ufffdc\ufffdd"


@given(words, forms)
def test_passages_hold_all_of_the_text_in_order(parts: list[str], form: str) -> None:
    text = clean(" ".join(parts))
    passages = split(Document(id="d", title="t", text=text, form=form)) if text else []
    assert squeezed("".join(p.text for p in passages)) == squeezed(text)
    assert [p.ordinal for p in passages] == list(range(len(passages)))
    assert all(p.text and p.text == p.text.strip() and p.document == "d" and p.title == "t" for p in passages)
    longest = ROW_CHARS if form == "row" else PASSAGE_CHARS
    assert all(len(p.text) <= longest for p in passages)


@given(
    st.lists(
        st.tuples(st.from_regex(r"[ab](#[0-9]{1,2}){0,3}\n?", fullmatch=True), st.booleans()), unique_by=lambda x: x[0]
    )
)
def test_no_two_documents_share_a_passage_id(documents: list[tuple[str, bool]]) -> None:
    ids = []
    for key, long in documents:
        text = "One sentence. " * (200 if long else 1)
        ids += [p.id for p in split(Document(id=key, title="", text=text))]
        assert [p.id for p in split(Document(id=key, title="", text=text))] == ids[
            -len(split(Document(id=key, title="", text=text))) :
        ]
    assert len(set(ids)) == len(ids)


def test_rows_stay_whole_and_files_are_cut_at_sentences() -> None:
    text = "The river is long and slow in the plain. " * 100
    row = split(Document(id="mq-1", title="", text=text, form="row"))
    assert [p.id for p in row] == ["mq-1"]
    file = split(Document(id="a.txt", title="", text=text, form="text"))
    assert [p.id for p in file] == [f"a.txt#{i}" for i in range(len(file))]
    assert len(file) > 3
    assert all(p.text.endswith("plain.") and p.text.startswith("The river") for p in file)
    long = split(Document(id="mq-2", title="", text=text * 3, form="row"))
    assert len(long) > 1
    assert max(len(p.text) for p in long) <= PASSAGE_CHARS


def test_markup_is_cut_along_its_headings() -> None:
    text = "\n\n".join(f"## Part {i}\n\n" + f"Sentence of part {i}. " * 30 for i in range(5))
    passages = split(Document(id="a.md", title="", text=text, form="markup"))
    assert [p.text.splitlines()[0] for p in passages] == [f"## Part {i}" for i in range(5)]


@pytest.mark.parametrize("form", ["row", "text", "markup"])
@pytest.mark.parametrize("unit", ["x", "word ", "Sentence of five words here. ", "| cell | cell |\n", "word\n\n"])
def test_a_megabyte_without_structure_is_cut(form: str, unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    passages = split(Document(id="d", title="", text=text, form=form))
    assert squeezed("".join(p.text for p in passages)) == squeezed(text)
    assert max(len(p.text) for p in passages) <= ROW_CHARS
