"""Probes made of English: indirect objects, a needle among filler, and arcs between words."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headscope.heads.roles.measures import only_looks_back
from headscope.heads.roles.probes.grammar import (
    COREFERENCE,
    NEGATION,
    NOUN_TO_MODIFIER,
    VERB_TO_SUBJECT,
    WORDS,
    Arc,
    arcs,
    filler,
)
from headscope.heads.roles.probes.probe import Answer, Ask, Batch, Probe, offsets, one_row
from headscope.heads.roles.probes.vocabulary import Spelled, UntestableError, Vocabulary

NAMES = WORDS["woman"] + WORDS["man"]
GIVING = (
    "When {a} and {b} went to the {place}, {s} gave a {thing} to",
    "Then {a} and {b} had a long talk at the {place}. After it {s} gave a {thing} to",
    "While {a} and {b} were working at the {place}, {s} handed a {thing} to",
)
SHOPS = ("store", "school", "park", "office", "hospital", "house", "garden", "station")
GIFTS = ("book", "ring", "letter", "cup", "box", "key", "flower", "drink")
COLOURS = ("red", "blue", "green", "black", "white", "yellow", "brown", "gold")
CONTENTS = ("key", "ring", "map", "book", "coin", "letter", "knife", "watch", "cup", "stone")
NEEDLES, NEEDLE_ROOM = 3, 200
FARTHEST = 12  # places: fixed offsets up to this one are tried as rivals


def indirect_objects(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    """Two people, one of them named again: to whom was it given? Each pair stands in both orders."""
    names = _enough(vocabulary, NAMES, "names", 8)
    texts, twins = [], []
    answers: list[tuple[str, str, list[str]]] = []
    for index in range(count):
        draw = random.Random(seed + index // 2)
        giver, receiver, third, *absent = draw.sample(sorted(names), 5)
        first, second = (giver, receiver) if draw.random() < 0.5 else (receiver, giver)
        first, second = (first, second) if index % 2 else (second, first)
        blank = draw.choice(GIVING).replace("{place}", draw.choice(SHOPS)).replace("{thing}", draw.choice(GIFTS))
        people = {"a": first, "b": second}
        texts.append(blank.format(**people, s=giver))
        twins.append(blank.format(**people, s=third))
        answers.append((receiver, giver, absent))
    spelled = [vocabulary.spell(text) for text in texts]
    told = [vocabulary.spell(text) for text in twins]

    def batch(chosen: list[int]) -> Batch:
        end, ids = _ends(vocabulary, [spelled[i] for i in chosen])
        twin_end, twin_ids = _ends(vocabulary, [told[i] for i in chosen])
        right = torch.tensor([names[answers[i][0]] for i in chosen])
        wrong = torch.tensor([names[answers[i][1]] for i in chosen])
        absent = torch.tensor([[names[name] for name in answers[i][2]] for i in chosen])
        asks = _people(ids, end, right, wrong)
        return Batch(
            ids,
            asks=asks,
            answer=Answer(end, right, wrong, absent),
            twin=Batch(twin_ids, asks=_people(twin_ids, twin_end, right, wrong)),
        )

    made = "“When A and B went to the store, B gave a book to”, names, places and order balanced"
    return Probe(_batches(vocabulary, spelled, batch, told), made, "logit of the receiver minus the giver's")


def needle(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    """Three boxes in a long text, each with something in it; the end asks about one of them."""
    things, colours = _enough(vocabulary, CONTENTS, "things", 6), _enough(vocabulary, COLOURS, "colours", NEEDLES)
    room = min(NEEDLE_ROOM, vocabulary.room)
    if room < 90:
        raise UntestableError(f"its context of {vocabulary.room} tokens is too short for a needle in a long text (90)")
    words = (sorted(colours), sorted(things))
    made = [_haystack(vocabulary, random.Random(seed + index), *words, room) for index in range(count)]
    spelled = [each[0] for each in made]

    def batch(chosen: list[int]) -> Batch:
        end, ids = _ends(vocabulary, [spelled[i] for i in chosen])
        spans = [[spelled[i].at(span) for span in made[i][1]] for i in chosen]
        length = ids.shape[1]
        rivals = {
            f"another box ({1 + other})": one_row(end, [each[other + 1] for each in spans], length)
            for other in range(NEEDLES - 1)
        }
        asking = torch.arange(length) == end[:, None]
        rivals |= offsets(asking, (0, 1, 2))
        wanted = one_row(end, [each[0] for each in spans], length)
        said = torch.tensor([[things[thing] for thing in made[i][2]] for i in chosen])
        answer = Answer(end, said[:, 0], said[:, 1], said[:, 2:4])
        return Batch(ids, asks={"needle": Ask(wanted, rivals)}, answer=answer)

    told = f"{NEEDLES} facts (“The red box holds the key.”) in {room} tokens of plain sentences, one asked about"
    return Probe(_batches(vocabulary, spelled, batch), told, "logit of the right thing minus another box's")


def coreference(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    return arc_probe(vocabulary, arcs(COREFERENCE, count, seed), "two people of different gender and a pronoun")


def verb_to_subject(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    return arc_probe(vocabulary, arcs(VERB_TO_SUBJECT, count, seed), "a verb, its subject, and another noun")


def noun_to_modifier(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    return arc_probe(vocabulary, arcs(NOUN_TO_MODIFIER, count, seed), "a noun, its adjective, and another adjective")


def negation(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    return arc_probe(vocabulary, arcs(NEGATION, count, seed), "a negated word, its “not”, and another adverb")


def arc_probe(vocabulary: Vocabulary, sentences: Sequence[Arc], what: str) -> Probe:
    """One row of each sentence asks for a word; rivals are the distractor and every fixed offset up to twelve."""
    vocabulary.need_text()
    spelled = [vocabulary.spell(arc.text) for arc in sentences]

    def batch(chosen: list[int]) -> Batch:
        _, ids = _ends(vocabulary, [spelled[i] for i in chosen])
        row = torch.tensor([spelled[i].at(sentences[i].query)[-1] for i in chosen])
        target = [spelled[i].at(sentences[i].target) for i in chosen]
        other = [spelled[i].at(sentences[i].distractor) for i in chosen]
        length = ids.shape[1]
        asking = torch.arange(length) == row[:, None]
        rivals = {"the distractor": one_row(row, other, length), **offsets(asking, range(FARTHEST + 1))}
        return Batch(ids, asks={"arc": Ask(one_row(row, target, length), rivals)})

    distances = [s.at(arc.query)[-1] - s.at(arc.target)[-1] for s, arc in zip(spelled, sentences, strict=True)]
    best = max(distances.count(distance) for distance in set(distances)) / len(distances)
    made = f"sentences of a small grammar: {what}; targets {min(distances)}–{max(distances)} tokens back"
    return Probe(_batches(vocabulary, spelled, batch), made, baselines={"arc": best})


def _people(ids: Tensor, end: Tensor, receiver: Tensor, giver: Tensor) -> dict[str, Ask]:
    """From the end: to the receiver, and to the giver's second mention."""
    length = ids.shape[1]
    given = [_places(row, token) for row, token in zip(ids, giver, strict=True)]
    received = [_places(row, token) for row, token in zip(ids, receiver, strict=True)]
    asking = torch.arange(length) == end[:, None]
    places = offsets(asking, (0, 1, 2))
    first, again = ([[each[at]] for each in given] for at in (0, -1))
    to_receiver, to_first, to_again = (one_row(end, keys, length) for keys in (received, first, again))
    return {
        "receiver": Ask(to_receiver, {"the giver": to_first, "the giver again": to_again, **places}),
        "giver again": Ask(to_again, {"the giver's first mention": to_first, "the receiver": to_receiver, **places}),
    }


def _haystack(
    vocabulary: Vocabulary, draw: random.Random, colours: Sequence[str], things: Sequence[str], room: int
) -> tuple[Spelled, list[tuple[int, int]], list[str]]:
    """A text, the spans of the right thing and of the others, and the things: right, wrong, two that are absent."""
    boxes = list(zip(draw.sample(colours, NEEDLES), draw.sample(things, NEEDLES + 2)[:NEEDLES], strict=True))
    absent = draw.sample([thing for thing in things if thing not in {thing for _, thing in boxes}], 2)
    plain = [text for text in filler(40, draw.randrange(10**6)) if not any(f" {thing}" in text for thing in things)]
    question = f"So we know that the {boxes[0][0]} box holds the"
    facts = [f"The {colour} box holds the {thing}." for colour, thing in boxes]
    length = len(vocabulary.spell(" ".join([*facts, question])).ids)
    kept: list[str] = []
    for sentence in plain:
        length += len(vocabulary.model.token_ids(" " + sentence))
        if length > room:
            break
        kept.append(sentence)
    for fact in draw.sample(facts, NEEDLES):
        kept.insert(draw.randrange(len(kept) + 1), fact)
    text = " ".join([*kept, question])
    spans = []
    for fact, (_, thing) in zip(facts, boxes, strict=True):
        stop = text.index(fact) + len(fact) - 1
        spans.append((stop - len(thing), stop))
    return vocabulary.spell(text), spans, [boxes[0][1], boxes[1][1], *absent]


def _batches(
    vocabulary: Vocabulary,
    spelled: Sequence[Spelled],
    batch: Callable[[list[int]], Batch],
    twins: Sequence[Spelled] | None = None,
) -> tuple[Batch, ...]:
    """Causal models take all sentences at once, padded at the end where nothing looks back from; others by length."""
    if max(len(each.ids) for each in (*spelled, *(twins or ()))) > vocabulary.room:
        raise UntestableError(f"its context of {vocabulary.room} tokens is too short for these sentences")
    if only_looks_back(vocabulary.model):
        return (batch(list(range(len(spelled)))),)
    groups: dict[tuple[int, int], list[int]] = {}
    for index, each in enumerate(spelled):
        groups.setdefault((len(each.ids), len(twins[index].ids) if twins else 0), []).append(index)
    return tuple(batch(chosen) for chosen in groups.values())


def _ends(
    vocabulary: Vocabulary, spelled: Sequence[Spelled]
) -> tuple[Int[Tensor, " input"], Int[Tensor, "input token"]]:
    """The last place of the text proper, and ids padded with their own last token."""
    longest = max(len(each.ids) for each in spelled)
    ids = torch.tensor([list(each.ids) + [each.ids[-1]] * (longest - len(each.ids)) for each in spelled])
    return torch.tensor([len(each.ids) - 1 - len(vocabulary.suffix) for each in spelled]), ids


def _places(row: Int[Tensor, " token"], token: Tensor) -> list[int]:
    found: Bool[Tensor, " token"] = row == token
    return [int(place) for place in found.nonzero().flatten()]


def _enough(vocabulary: Vocabulary, words: Sequence[str], what: str, least: int) -> dict[str, int]:
    vocabulary.need_text()
    found = vocabulary.single(words)
    if len(found) < least:
        raise UntestableError(f"only {len(found)} of {len(words)} {what} are single tokens of it; {least} are needed")
    return found
