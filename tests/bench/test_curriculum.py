"""Generated training text: nothing that models are judged on, marked answers that follow, and variety."""

from __future__ import annotations

import random
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from bench.curriculum import deeds, exchanges, held_out, honesty, people
from bench.curriculum.harvest import Deed, harvest
from bench.curriculum.mixture import KINDS, passages
from bench.curriculum.named_again import named_again
from bench.curriculum.passage import World, answer, passage, sentence
from bench.curriculum.people import NamePool
from bench.curriculum.tokenizer import whole_words
from bench.curriculum.weave import woven

from headscope.heads.roles.probes import grammar, text_probes
from headscope.lab.train.text_files import train_tokenizer

POOL = NamePool([("Pickwick", "m"), ("Dorrit", "w"), ("Barnaby", "m"), ("Copperfield", "m"), ("Havisham", "w")])
HAY = ["The old clock ticked on. Nobody came down the stairs that evening.", "She was never seen in the town again."]
NOVEL = (
    "“No,” said Mary, and Mrs. Dorrit looked up at Mary. Pickwick came in. He had lost his hat, and Pickwick laughed.",
    "Barnaby waited for Dorrit until she came. Barnaby had not slept, and Dorrit saw it. Nobody spoke to Barnaby.",
)
DEEDS = (
    "She drew her hands away from him. At last he thanked her. They walked home at night. Molly saw him and they left. "
    "He had never spoken to him before; and in her heart she forgave him. She saw herself in him and in her. "
    "I saw that she had followed him, and went away."
)
with ThreadPoolExecutor(1) as threads:
    HARVEST = harvest([DEEDS, *HAY], threads)
WORLD = World(random.Random(0), POOL, HAY, NOVEL, HARVEST)


def generated(kind: str, n: int = 60) -> list[str]:
    return [each.text for each in passages(kind, n, 5, WORLD)]


def probe_sentences() -> list[str]:
    """Sentences of every probe that is made of text, and of every judged question."""
    arcs = (grammar.COREFERENCE, grammar.VERB_TO_SUBJECT, grammar.NOUN_TO_MODIFIER, grammar.NEGATION)
    found = [arc.text for templates in arcs for arc in grammar.arcs(templates, 40, 3)]
    draw = random.Random(0)
    for blank in text_probes.GIVING:
        a, b = draw.sample(text_probes.NAMES, 2)
        found.append(blank.format(a=a, b=b, s=a, place=draw.choice(text_probes.SHOPS), thing=text_probes.GIFTS[0]))
    found += ["The red box holds the key.", "So we know that the blue box holds the"]
    judged = (held_out.indirect_objects(30), held_out.pronouns(30), held_out.succession(9), held_out.needles(3, 200))
    return found + [question.text for questions in judged for question in questions]


@pytest.mark.parametrize("kind", KINDS)
def test_no_sentence_template_or_name_of_a_probe_occurs_in_generated_text(kind: str) -> None:
    texts = generated(kind, 6 if "long" in kind else 60)
    assert list(honesty.refused(texts)) == []
    probes = {part.strip() for text in probe_sentences() for part in text.removeprefix(grammar.LEAD).split(".")}
    probes = {part for part in probes if len(part.split()) > 3}
    for text in texts:
        assert not any(part in text for part in probes)
        assert held_out.NAMES.isdisjoint(honesty.TOKEN.findall(text))


def test_every_probe_sentence_is_refused_whatever_its_names_are() -> None:
    """Names are exchanged for ones that generated text may have, so that templates alone have to be recognised."""
    allowed = iter(people.WOMEN * 100)
    for text in probe_sentences():
        renamed = " ".join(
            next(allowed) + word[len(word.rstrip(".,;:")) :] if word.rstrip(".,;:") in held_out.NAMES else word
            for word in text.split()
        )
        assert honesty.refusal(renamed) is not None, renamed


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("The tall baker saw the green wagon.", "saw the"),
        ("It was Mary who came.", "a name"),
        ("Hilda saw Oscar in the garden because she was late.", "saw … in the garden"),
        ("Behind it the red box holds the door.", "box holds the"),
        ("While Nell and Otto were working at the mill, Nell left.", "were working at"),
    ],
)
def test_near_copies_are_refused_with_the_reason(text: str, reason: str) -> None:
    refused = honesty.refusal(text)
    assert refused is not None
    assert reason in refused.reason


@pytest.mark.parametrize("text", ["At the mill Hilda, who was tired, gave a lamp to Oscar.", "The box was red.", ""])
def test_ordinary_sentences_are_not_refused(text: str) -> None:
    assert honesty.refusal(text) is None


def test_marks_are_the_answers() -> None:
    made = passage(f"Anna gave it to {answer('Bo')}, not to {answer('Carl')}.")
    assert made.text == "Anna gave it to Bo, not to Carl."
    assert [made.text[start:stop] for start, stop in made.marks] == ["Bo", "Carl"]
    assert sentence(f"{answer('she')}, a thief,. ran") == f"{answer('She')}, a thief. ran"


@pytest.mark.parametrize("kind", KINDS)
def test_documents_have_marked_answers_and_equal_seeds_give_equal_documents(kind: str) -> None:
    made = list(passages(kind, 4, 1, WORLD))
    assert made == list(passages(kind, 4, 1, WORLD))
    assert made != list(passages(kind, 4, 2, WORLD))
    assert any(each.marks for each in made)
    for each in made:
        assert all(0 < start < stop <= len(each.text) for start, stop in each.marks)
        assert all(stop <= start for (_, stop), (start, _) in pairwise(each.marks))
        assert not {"⟦", "⟧", "{", "}"} & set(each.text) or kind == "brackets"
        assert ",," not in each.text
        assert ",." not in each.text


def test_the_answer_of_a_scene_is_the_other_person() -> None:
    """In a scene of two people an answer is a person, and never the name that stands directly before it."""
    for each in passages("scenes", 40, 3, WORLD):
        for start, stop in each.marks:
            name = each.text[start:stop]
            assert name in each.text[:start], each.text


def test_people_of_novels_are_renamed_the_same_way_throughout_and_keep_their_gender() -> None:
    for each in passages("novels with other names", 20, 3, WORLD):
        assert not {"Mary", "Dorrit", "Pickwick", "Barnaby"} <= set(each.text.replace(",", "").split()), each.text
        assert "Mary" not in each.text
        for start, stop in each.marks:
            assert each.text[start:stop] in each.text[:start], each.text
    women = {*people.WOMEN, "Dorrit", "Havisham"} | {name for name, gender in POOL.found if gender == "w"}
    named = [each.text.split()[2].rstrip(",") for each in passages("novels with other names", 40, 3, WORLD)]
    listed = [name for name in named if name in {*people.WOMEN, *people.MEN}]
    assert listed
    assert all(name in women or name in people.MEN for name in listed)


def test_names_of_novels_are_found_with_the_gender_of_their_titles_or_pronouns() -> None:
    text = "and Mr. Wardle said to Miss Havisham, but Barkis was willing, and he said so; Cobham was far away; " * 6
    assert people.pool_of([text]).found == [("Wardle", "m"), ("Havisham", "w"), ("Barkis", "m")]
    assert people.pool_of(["when Mary came, " * 9]) == NamePool([], [])


def test_words_of_behaviours_are_single_tokens_at_the_start_and_inside() -> None:
    both, inside = whole_words()
    few, more = [*both[::9], "Wednesday", "Mary"], inside[::30]
    from bench.curriculum import tokenizer as trained

    texts = ["It was a long way to the old town, and nobody knew why. " * 50]
    made = trained.train_tokenizer(trained.weighted(texts, few, more), 900)
    assert all(len(made.encode(word, add_special_tokens=False).ids) == 1 for word in few)
    assert all(len(made.encode(" " + word, add_special_tokens=False).ids) == 1 for word in [*few, *more])


def test_woven_text_keeps_all_of_its_sentences_in_order_between_those_of_a_novel() -> None:
    marked = "Otto met Hilda. Then Otto thanked ⟦Hilda⟧. It rained."
    seen = set()
    for seed in range(20):
        text = woven(World(random.Random(seed), POOL, HAY), marked)
        places = [text.index(each) for each in ("Otto met Hilda.", "Then Otto thanked ⟦Hilda⟧.", "It rained.")]
        assert places == sorted(places)
        assert any(each.split(". ")[0] in text for each in HAY)
        seen.add(text)
    assert len(seen) > 5
    named = World(random.Random(0), POOL, ["Pickwick laughed at the weather that day."])
    assert woven(named, marked) == marked, "sentences that name somebody are left out"


def test_deeds_of_novels_have_slots_for_two_people_and_the_genders_that_pronouns_need() -> None:
    assert HARVEST.deeds == (
        Deed("{a} drew her hands away from {b}.", "w?"),
        Deed("At last {a} thanked {b}.", "??"),
        Deed("{a} had never spoken to {b} before.", "??"),
        Deed("and in her heart {a} forgave {b}.", "w?"),
        Deed("{a} had followed {b}.", "??"),
    )
    assert HARVEST.together == ("{both} walked home at night.",)


def test_deeds_mean_the_other_of_two_people() -> None:
    """Whoever acts, the name that is marked is the other one's."""
    for made in passages("deeds of novels", 40, 9, WORLD):
        named = {made.text[start:stop] for start, stop in made.marks}
        for part in made.text.split(". "):
            here = [word for word in honesty.TOKEN.findall(part) if word in named]
            assert len(here) == len(set(here)) <= 2


def names_before_answers(n_people: int, n: int = 300) -> list[tuple[list[str], str]]:
    """For each marked name of an encounter: all names before it, in their order, and the marked one."""
    found = []
    for seed in range(n):
        world = replace(WORLD, draw=random.Random(seed))
        cast = world.people(n_people)
        made = passage(exchanges.encounter(world, cast))
        said = re.compile("|".join(rf"\b{person.name}\b" for person in cast))
        for start, stop in made.marks:
            found.append(([each[0] for each in said.finditer(made.text[:start])], made.text[start:stop]))
    return found


@pytest.mark.parametrize("n_people", [2, 3])
def test_an_exchange_means_the_one_who_is_not_named_in_its_clause(n_people: int) -> None:
    for before, meant in names_before_answers(n_people):
        others = before[1 - n_people :]
        assert len({*others, meant}) == n_people, (before, meant)


@pytest.mark.parametrize(("n_people", "most"), [(2, 0.6), (3, 0.5)])
def test_answers_of_exchanges_cannot_be_looked_up_behind_the_earlier_copy_of_the_one_who_acts(
    n_people: int, most: float
) -> None:
    """The rule of a model that only copies what followed: it is right as often as one who draws one of the two."""
    right = 0
    answers = names_before_answers(n_people)
    for before, meant in answers:
        behind = [after for name, after in pairwise(before) if name == before[-1] != after]
        right += behind[-1:] == [meant]
    assert 0.25 < right / len(answers) < most


def test_common_words_stand_for_both_names_throughout_and_marks_stay() -> None:
    told = "Otto and Hilda met. Then Hilda thanked ⟦Otto⟧, and Otto's dog barked at Ottoline."
    named = replace(WORLD, names=replace(POOL, words=["kettle", "river"]))
    pair = [people.Person("Otto", "m"), people.Person("Hilda", "w")]
    made = {deeds.in_words(replace(named, draw=random.Random(seed)), told, pair) for seed in range(9)}
    one = "kettle and river met. Then river thanked ⟦kettle⟧, and kettle's dog barked at Ottoline."
    assert made == {one, one.replace("kettle", "_").replace("river", "kettle").replace("_", "river")}
    texts = [each.text for each in passages("deeds of novels", 20, 9, named)]
    assert 1 < sum("kettle" in text for text in texts) < len(texts)


def test_names_that_come_again_are_marked() -> None:
    """Names of one token, said within 400 tokens before; nothing else."""
    tokens = train_tokenizer(["He saw Pickwick and Dorrit there. " * 99], 400)
    ids = tokens.encode("He saw Dorrit. Then Dorrit saw Pickwick there, and there was Dorrit.").ids
    filler = tokens.encode(" there" * 400, add_special_tokens=False).ids
    row = torch.tensor([*ids, *filler, *tokens.encode(" Pickwick", add_special_tokens=False).ids])
    marked = named_again(row, ["Pickwick", "Dorrit"], tokens)
    (dorrit,) = tokens.encode(" Dorrit", add_special_tokens=False).ids
    assert marked.nonzero()[:, 0].tolist() == [at for at, one in enumerate(ids) if one == dorrit][1:]
