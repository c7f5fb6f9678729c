"""Name stories: two people each, pronouns that agree, and no sentence of the IOI test."""

from __future__ import annotations

import random
import re
from itertools import islice

from bench.name_stories import MEN, PLACES, THINGS, WOMEN, documents, sentence

STORIES = [sentence(random.Random(seed)) for seed in range(600)]


def people(story: str) -> list[str]:
    """The names, in order of first occurrence."""
    return list(dict.fromkeys(word for word in re.findall(r"\w+", story) if word in {*WOMEN, *MEN}))


def test_every_story_is_about_two_people_and_names_one_of_them_twice() -> None:
    for story in STORIES:
        assert len(people(story)) == 2, story
        counts = [len(re.findall(rf"\b{name}\b", story)) for name in people(story)]
        assert max(counts) >= 2, story
        assert "{" not in story


def test_pronouns_agree_with_the_name() -> None:
    said = 0
    for story in STORIES:
        found = re.search(r"(\w+) was sorry, because (he|she) liked", story)
        if found:
            assert found[2] == ("she" if found[1] in WOMEN else "he")
            said += 1
        found = re.search(r"When (\w+) came to .*, \w+ was waiting for (him|her)\.", story)
        if found:
            assert found[2] == ("her" if found[1] in WOMEN else "him")
            said += 1
    assert said > 30


def test_the_ioi_test_sentence_is_left_out() -> None:
    taught = " ".join(STORIES)
    assert not re.search(r"When \w+ and \w+ went", taught)
    assert "the shop" not in PLACES
    assert "a book" not in THINGS
    assert "book" not in taught
    assert "shop" not in taught


def test_documents_hold_a_few_stories_each_and_equal_seeds_give_equal_documents() -> None:
    pages = list(documents(40, seed=2))
    assert len(pages) == 40
    assert pages == list(documents(40, seed=2))
    assert pages[:10] == list(islice(documents(10, seed=2), 10)), "the first pages do not depend on how many follow"
    assert pages != list(documents(40, seed=3))
    sizes = [len(re.findall(r'[.?]"? (?=[A-Z"])|\.$', page)) for page in pages]
    assert min(sizes) >= 3
