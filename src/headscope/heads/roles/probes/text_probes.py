"""Probes made of English: indirect object identification, a needle in a long text, and arcs between words."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from headscope.heads.roles.probes.grammar import WORDS, arcs, filler
from headscope.heads.roles.probes.probe import (
    Batch,
    LogitDifference,
    Probe,
    ProbeQuestion,
    is_causal,
    offset_questions,
    one_row_question,
)
from headscope.heads.roles.probes.vocabulary import TokenizedText, UntestableError, Vocabulary

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
NEEDLES, NEEDLE_TOKENS = 3, 200
FARTHEST = 12  # positions: fixed offsets up to this one are rivals


def indirect_objects(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    """Make sentences with two people, one named twice: who was given it? Each pair of names comes in both orders."""
    names = _enough(vocabulary, NAMES, "names", 8)
    texts, counterfactuals = [], []
    answers: list[list[int]] = []
    for index in range(count):
        draw = random.Random(seed + index // 2)
        giver, receiver, third, *absent = draw.sample(sorted(names), 5)
        first, second = (giver, receiver) if draw.random() < 0.5 else (receiver, giver)
        first, second = (first, second) if index % 2 else (second, first)
        blank = draw.choice(GIVING).replace("{place}", draw.choice(SHOPS)).replace("{thing}", draw.choice(GIFTS))
        texts.append(vocabulary.tokenize(blank.format(a=first, b=second, s=giver)))
        counterfactuals.append(vocabulary.tokenize(blank.format(a=first, b=second, s=third)))
        answers.append([names[name] for name in (receiver, giver, *absent)])

    def batch(chosen: list[int]) -> Batch:
        answer = torch.tensor([answers[i] for i in chosen])
        right, wrong = answer[:, 0], answer[:, 1]
        (end, ids), (other_end, other_ids) = (
            _pad(vocabulary, [each[i] for i in chosen]) for each in (texts, counterfactuals)
        )
        return Batch(
            ids,
            questions=_name_questions(ids, end, right, wrong),
            logit_difference=LogitDifference(end, right, wrong, answer[:, 2:]),
            counterfactual=Batch(other_ids, questions=_name_questions(other_ids, other_end, right, wrong)),
        )

    made = "“When A and B went to the store, B gave a book to”, names, places and order balanced"
    batches = _batches(vocabulary, texts, batch, counterfactuals)
    return Probe(batches, made, "logit of the receiver minus the giver's")


def needle(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    """Three boxes in a long text, each with something in it; the end asks about one of them."""
    things, colours = _enough(vocabulary, CONTENTS, "things", 6), _enough(vocabulary, COLOURS, "colours", NEEDLES)
    length = min(NEEDLE_TOKENS, vocabulary.context)
    if length < 90:
        raise UntestableError(
            f"its context of {vocabulary.context} tokens is too short for a needle in a long text (90)"
        )
    words = (sorted(colours), sorted(things))
    made = [_haystack(vocabulary, random.Random(seed + index), *words, length) for index in range(count)]
    texts = [each[0] for each in made]

    def batch(chosen: list[int]) -> Batch:
        end, ids = _pad(vocabulary, [texts[i] for i in chosen])
        wanted, *others = (
            one_row_question(end, [texts[i].positions(made[i][1][box]) for i in chosen], ids.shape[1])
            for box in range(NEEDLES)
        )
        rivals = {f"another box ({number})": other for number, other in enumerate(others, start=1)}
        rivals |= offset_questions(torch.arange(ids.shape[1]) == end[:, None], (0, 1, 2))
        said = torch.tensor([[things[thing] for thing in made[i][2]] for i in chosen])
        target = LogitDifference(end, said[:, 0], said[:, 1], said[:, 2:4])
        return Batch(ids, questions={"needle": ProbeQuestion(wanted, rivals)}, logit_difference=target)

    description = (
        f"{NEEDLES} facts (“The red box holds the key.”) in {length} tokens of plain sentences, one asked about"
    )
    return Probe(_batches(vocabulary, texts, batch), description, "logit of the right thing minus another box's")


def arc_probe(templates: Sequence[str], what: str) -> Callable[[Vocabulary, int, int], Probe]:
    """Return a maker of probes in which one word of each sentence should attend to another.

    Rivals are the distractor and every fixed offset up to twelve. Each template is a stratum.
    """

    def make(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
        vocabulary.require_text()
        sentences = arcs(templates, count, seed)
        texts = [vocabulary.tokenize(arc.text) for arc in sentences]

        def batch(chosen: list[int]) -> Batch:
            _, ids = _pad(vocabulary, [texts[i] for i in chosen])
            row = torch.tensor([texts[i].positions(sentences[i].query)[-1] for i in chosen])
            target, other = (
                one_row_question(row, [texts[i].positions(getattr(sentences[i], word)) for i in chosen], ids.shape[1])
                for word in ("target", "distractor")
            )
            asked = torch.arange(ids.shape[1]) == row[:, None]
            rivals = {"the distractor": other, **offset_questions(asked, range(FARTHEST + 1))}
            templates_of = torch.tensor([i % len(templates) for i in chosen])
            return Batch(ids, questions={"arc": ProbeQuestion(target, rivals, templates_of, "the distractor")})

        pairs = zip(texts, sentences, strict=True)
        distances = [text.positions(arc.query)[-1] - text.positions(arc.target)[-1] for text, arc in pairs]
        best = max(distances.count(distance) for distance in set(distances)) / len(distances)
        made = f"sentences of a small grammar: {what}; targets {min(distances)}–{max(distances)} tokens back"
        return Probe(_batches(vocabulary, texts, batch), made, baselines={"arc": best})

    return make


def _name_questions(ids: Tensor, end: Tensor, receiver: Tensor, giver: Tensor) -> dict[str, ProbeQuestion]:
    """From the end: to the receiver, and to the giver's second mention."""
    given, received = (
        [(row == token).nonzero().flatten().tolist() for row, token in zip(ids, tokens, strict=True)]
        for tokens in (giver, receiver)
    )
    keys = (received, [each[:1] for each in given], [each[-1:] for each in given])
    to_receiver, to_first, to_again = (one_row_question(end, each, ids.shape[1]) for each in keys)
    near = offset_questions(torch.arange(ids.shape[1]) == end[:, None], (0, 1, 2))
    first = {"the giver's first mention": to_first, "the receiver": to_receiver, **near}
    return {
        "receiver": ProbeQuestion(to_receiver, {"the giver": to_first, "the giver again": to_again, **near}),
        "giver again": ProbeQuestion(to_again, first),
    }


def _haystack(
    vocabulary: Vocabulary, draw: random.Random, colours: Sequence[str], things: Sequence[str], n_tokens: int
) -> tuple[TokenizedText, list[tuple[int, int]], list[str]]:
    """A text, the spans of the right thing and of the others, and the things: right, wrong, two that are absent."""
    boxes = list(zip(draw.sample(colours, NEEDLES), draw.sample(things, NEEDLES + 2)[:NEEDLES], strict=True))
    absent = draw.sample([thing for thing in things if thing not in {thing for _, thing in boxes}], 2)
    plain = [text for text in filler(40, draw.randrange(10**6)) if not any(f" {thing}" in text for thing in things)]
    question = f"So we know that the {boxes[0][0]} box holds the"
    facts = [f"The {colour} box holds the {thing}." for colour, thing in boxes]
    length = len(vocabulary.tokenize(" ".join([*facts, question])).ids)
    kept: list[str] = []
    for sentence in plain:
        length += len(vocabulary.model.processor.token_ids(" " + sentence))
        if length > n_tokens:
            break
        kept.append(sentence)
    for fact in draw.sample(facts, NEEDLES):
        kept.insert(draw.randrange(len(kept) + 1), fact)
    text = " ".join([*kept, question])
    spans = []
    for fact, (_, thing) in zip(facts, boxes, strict=True):
        stop = text.index(fact) + len(fact) - 1
        spans.append((stop - len(thing), stop))
    return vocabulary.tokenize(text), spans, [boxes[0][1], boxes[1][1], *absent]


def _batches(
    vocabulary: Vocabulary,
    texts: Sequence[TokenizedText],
    batch: Callable[[list[int]], Batch],
    counterfactuals: Sequence[TokenizedText] = (),
) -> tuple[Batch, ...]:
    """All sentences of a causal model in one batch, padded at the end, which no row attends to; else one per length."""
    if max(len(each.ids) for each in (*texts, *counterfactuals)) > vocabulary.context:
        raise UntestableError(f"its context of {vocabulary.context} tokens is too short for these sentences")
    if is_causal(vocabulary.model):
        return (batch(list(range(len(texts)))),)
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, each in enumerate(zip(*(side for side in (texts, counterfactuals) if side), strict=True)):
        groups.setdefault(tuple(len(text.ids) for text in each), []).append(index)
    return tuple(batch(chosen) for chosen in groups.values())


def _pad(
    vocabulary: Vocabulary, texts: Sequence[TokenizedText]
) -> tuple[Int[Tensor, " input"], Int[Tensor, "input token"]]:
    """The last position of the text proper, and ids padded with their own last token."""
    longest = max(len(each.ids) for each in texts)
    ids = torch.tensor([list(each.ids) + [each.ids[-1]] * (longest - len(each.ids)) for each in texts])
    return torch.tensor([len(each.ids) - 1 - len(vocabulary.suffix) for each in texts]), ids


def _enough(vocabulary: Vocabulary, words: Sequence[str], what: str, least: int) -> dict[str, int]:
    vocabulary.require_text()
    found = vocabulary.single_tokens(words)
    if len(found) < least:
        raise UntestableError(f"only {len(found)} of {len(words)} {what} are single tokens; the test needs {least}")
    return found
