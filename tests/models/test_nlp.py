"""The embedded spaCy pipeline."""

import pytest

from hoptrail.errors import ModelFileError
from hoptrail.models import nlp


def test_it_is_loaded_once_and_finds_entities() -> None:
    pipeline = nlp.load_pipeline()
    assert nlp.load_pipeline() is pipeline
    found = {(entity.text, entity.label_) for entity in pipeline("Marie Curie was born in Warsaw.").ents}
    assert ("Warsaw", "GPE") in found


def test_parts_can_be_left_out() -> None:
    pipeline = nlp.load_pipeline("parser", "lemmatizer")
    assert {"parser", "lemmatizer"}.isdisjoint(pipeline.pipe_names)
    assert "ner" in pipeline.pipe_names


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nlp, "PIPELINE", "en_core_web_absent")
    with pytest.raises(ModelFileError, match=r"hoptrail\[embedded\]"):
        nlp.load_pipeline("tagger")
