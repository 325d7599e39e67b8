"""The extractor without a language model, on real passages."""

import pytest

from hoptrail.corpus.extraction import Extraction, Extractor
from hoptrail.corpus.extractors.offline import OfflineExtractor
from hoptrail.corpus.types import Passage

FILM = (
    "The More the Merrier",
    (
        "The More the Merrier is a 1943 American comedy film made by Columbia Pictures. "
        "The picture stars Jean Arthur, Joel McCrea and Charles Coburn. The movie was directed by George Stevens."
    ),
)
JUDGE = (
    "James Charles Mathew",
    (
        "Sir James Charles Mathew (10 July 1830 - 9 November 1908) was an Irish-born judge. Born in an Irish Catholic "
        "family in Cork, Mathew was educated at the largely Protestant Trinity College, Dublin, before joining the bar."
    ),
)
PLAYER = ("Charles James (footballer)", "Charles James (1882-1960) was an English footballer who played for Stoke.")


def passage(title: str, text: str, key: str = "p") -> Passage:
    return Passage(id=key, document=key, ordinal=0, title=title, text=text)


def extracted(title: str, text: str) -> Extraction:
    (result,) = OfflineExtractor().extract([passage(title, text)])
    assert isinstance(result, Extraction)
    return result


def triples(result: Extraction) -> set[tuple[str, str, str]]:
    return {(each.head[0], each.label, each.tail[0]) for each in result.relations}


def test_it_keeps_the_contract() -> None:
    assert isinstance(OfflineExtractor(), Extractor)


def test_a_definite_noun_stands_for_the_subject() -> None:
    found = triples(extracted(*FILM))
    assert ("The More the Merrier", "direct by", "George Stevens") in found
    assert ("The More the Merrier", "star", "Joel McCrea") in found


def test_a_family_name_stands_for_the_subject_and_longer_names_are_kept() -> None:
    result = extracted(*JUDGE)
    assert ("James Charles Mathew", "educate at", "Dublin") in triples(result)
    subject = next(each for each in result.entities if each.name == "James Charles Mathew")
    assert subject.type == "PERSON"
    assert ("also", "Sir James Charles Mathew") in subject.attributes
    assert set(subject.mentions) == {0, 1}


def test_the_titles_parenthesis_is_the_kind() -> None:
    subject = extracted(*PLAYER).entities[0]
    assert subject.name == "Charles James"
    assert dict(subject.attributes) == {"kind": "footballer", "is": "English footballer"}


def test_every_relation_ends_in_entities_of_the_passage() -> None:
    for case in (FILM, JUDGE, PLAYER):
        result = extracted(*case)
        known = {(each.name, each.type) for each in result.entities}
        assert result.relations
        assert all({each.head, each.tail} <= known for each in result.relations)


def test_sentences_are_the_texts_and_mentions_point_into_them() -> None:
    result = extracted(*FILM)
    assert len(result.sentences) == 3
    stevens = next(each for each in result.entities if each.name == "George Stevens")
    assert [result.sentences[i] for i in stevens.mentions] == ["The movie was directed by George Stevens."]


def test_company_and_order_do_not_matter() -> None:
    passages = [passage(title, text, str(i)) for i, (title, text) in enumerate([FILM, JUDGE, PLAYER] * 5)]
    extractor = OfflineExtractor()
    alone = [extractor.extract([each])[0] for each in passages]
    assert extractor.extract(passages) == alone
    mixed = [*range(1, len(passages), 2), *range(0, len(passages), 2)]
    assert extractor.extract([passages[i] for i in mixed]) == [alone[i] for i in mixed]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "12 34 5,678",
        "🦊🦊 🦊",
        "x" * 6_000,
        "(((",
        '"" "',
        "كان طه حسين أديبا مصريا.",
        "孔子是中國思想家。",
        "\u202eabc\u202c",
        "A. " * 500,
    ],
)
def test_odd_texts_give_an_extraction(text: str) -> None:
    result = extracted("", text)
    assert all(each.name for each in result.entities)
