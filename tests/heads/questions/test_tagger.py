"""Parts of speech and arcs by a tagger written out by hand, and by spaCy where it is installed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headscope.errors import InputError
from headscope.heads.questions.tagger import TaggedWord, Tagger, spacy_tagger, tagged_questions
from headscope.models.protocol import Token

TAGS = {"the": "DET", "old": "ADJ", "dog": "NOUN", "barked": "VERB"}
HEADS = {"the": "dog", "old": "dog", "dog": "barked"}
TOKENS = [Token(place, text) for place, text in enumerate(["<s>", "The", " old", " do", "g", " barked", "."])]


def by_hand(text: str) -> list[TaggedWord]:
    words = list(re.finditer(r"[A-Za-z]+|[.,]", text.replace("<s>", "   ")))
    names = [found.group().lower() for found in words]
    return [
        TaggedWord(found.start(), found.end(), TAGS.get(name, "X"), names.index(HEADS[name]) if name in HEADS else None)
        for name, found in zip(names, words, strict=True)
    ]


def labels(name: str, tagger: Tagger = by_hand) -> tuple[list[int], list[int]]:
    question = next(each for each in tagged_questions(tagger) if each.name == name)
    query, key = question.labels(TOKENS)
    return query.tolist(), key.tolist()


def test_every_piece_of_a_word_has_its_part_of_speech() -> None:
    assert labels("nouns") == ([1] * 7, [-1, -1, -1, 1, 1, -1, -1])
    assert labels("verbs")[1] == [-1, -1, -1, -1, -1, 1, -1]


def test_arcs_lead_from_a_word_to_its_head_and_back() -> None:
    query, key = labels("syntactic head")
    assert key == [-1, 0, 1, 2, 2, 3, 4]
    assert query == [-1, 2, 2, 3, 3, -1, -1]  # “The” and “old” depend on “dog”, “dog” on “barked”
    assert labels("syntactic dependents") == (key, query)


def test_a_text_is_tagged_once_for_all_questions() -> None:
    calls: list[str] = []

    def counted(text: str) -> list[TaggedWord]:
        calls.append(text)
        return by_hand(text)

    for question in tagged_questions(counted):
        question.labels(TOKENS)
    assert calls == ["   The old dog barked."], "a special token is no part of the first word"


def test_words_outside_the_text_are_refused() -> None:
    with pytest.raises(InputError, match=r"word 0 reaches from 3 to 99 .* 22 characters and 1 words"):
        labels("nouns", lambda text: [TaggedWord(3, 99, "NOUN")])


def test_spacy_names_what_is_missing() -> None:
    with pytest.raises(InputError, match=r"no spaCy model 'no_such_model'.*pip install spacy"):
        spacy_tagger("no_such_model")


def test_spacy_tags_a_sentence(tmp_path: Path) -> None:
    """A pipeline of spaCy's own parts, saved and opened as a language model is: tags by rule, arcs written out."""
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed; pip install spacy")

    def parse(doc: Any) -> Any:
        names = [word.text.lower() for word in doc]
        parts = {"words": [word.text for word in doc], "spaces": [bool(word.whitespace_) for word in doc]}
        heads = [names.index(HEADS.get(name, name)) for name in names]
        return spacy.tokens.Doc(
            doc.vocab, **parts, pos=[word.pos_ for word in doc], heads=heads, deps=["dep"] * len(doc)
        )

    spacy.Language.component("arcs_written_out", func=parse)
    pipeline = spacy.blank("en")
    ruler = pipeline.add_pipe("attribute_ruler")
    for name, tag in TAGS.items():
        ruler.add(patterns=[[{"LOWER": name}]], attrs={"POS": tag})
    pipeline.to_disk(tmp_path / "without arcs")
    pipeline.add_pipe("arcs_written_out")
    pipeline.to_disk(tmp_path / "with arcs")
    tagger = spacy_tagger(str(tmp_path / "with arcs"))
    for name in ("nouns", "verbs", "determiners"):
        assert labels(name, tagger) == labels(name), name
    query, key = labels("syntactic head", tagger)
    assert query[1] == query[2] == key[3] == key[4] != -1
    assert query[3] == query[4] == key[5]
    assert query[5] == -1, "the root of a sentence has no head"
    assert set(labels("syntactic head", spacy_tagger(str(tmp_path / "without arcs")))[0]) == {-1}
