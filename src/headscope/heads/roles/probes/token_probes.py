"""Probes made of tokens only: repeats, scattered repeats, separators, sequences, and a source to align with."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from headscope.attention.questions import Question
from headscope.heads.roles.probes.grammar import filler, split_words
from headscope.heads.roles.probes.probe import (
    Batch,
    OVRanking,
    Probe,
    ProbeQuestion,
    offset_questions,
    one_key_question,
)
from headscope.heads.roles.probes.repeat_probe import RepeatProbe
from headscope.heads.roles.probes.vocabulary import UntestableError, Vocabulary

WARM_UP = 8  # rows before this position have too little to attend to
LONGEST = 25  # tokens of one copy, as in the published recipes
RANKED = 8  # positions of each input at which tokens are ranked under OV circuits


SEQUENCES: dict[str, tuple[str, ...]] = {
    "number words": split_words("one two three four five six seven eight nine ten eleven twelve"),
    "digits": tuple("123456789"),
    "days": split_words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    "months": split_words("January February March April May June July August September October November December"),
    "ordinals": split_words("first second third fourth fifth sixth seventh eighth ninth tenth"),
    "letters": tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
}


def repeat(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    """Random tokens, then the same again; four lengths, so that no fixed offset gives the answer."""
    start, longest = len(vocabulary.prefix), _copy_length(vocabulary, WARM_UP + 6)
    batches = []
    for turn in range(min(4, count)):
        length = longest - 2 * turn
        rows = (count + 3 - turn) // 4
        drawn = RepeatProbe(vocabulary=len(vocabulary.ordinary), length=length, rows=rows, seed=seed + turn, start=None)
        ids = vocabulary.wrap(vocabulary.ordinary[drawn.tokens()])
        batches.append(_repeat_batch(ids, start, length, seed + turn))
    made = f"{longest - 6}–{longest} random whole-word tokens, repeated once"
    return Probe(tuple(batches), made, "log-probability of the second copy, nats per token")


def _repeat_batch(ids: Int[Tensor, "input token"], start: int, length: int, seed: int) -> Batch:
    n, total = ids.shape
    position = torch.arange(total).expand(n, -1)
    generator = torch.Generator().manual_seed(seed)
    anywhere = (position >= start + WARM_UP) & (position < start + 2 * length - 1)
    second = (position >= start + length) & (position < start + 2 * length - 1)
    elsewhere = _other_positions(n, total, start, length, generator)

    def at(target: Tensor, rows: Tensor = anywhere) -> Question:
        return one_key_question(target.where(rows, -1))

    near = offset_questions(anywhere, (0, 1, 2, 3, 5, -1, -2))
    near |= {"first token": at(torch.zeros_like(position)), "another place": at(elsewhere)}

    def among(wanted: str, more: dict[str, Question]) -> ProbeQuestion:
        return ProbeQuestion(near[wanted], {name: each for name, each in near.items() if name != wanted} | more)

    copy = {
        "the earlier copy itself": at(position - length, second),
        "two after the earlier copy": at(position - length + 2, second),
        "another token of the first copy": at(elsewhere, second),
        **offset_questions(second, (0, 1, 2)),
    }
    questions = {
        "previous": among("offset -1", {}),
        "next": among("offset +1", {}),
        "itself": among("itself", {}),
        "first": among("first token", {"second token": at(torch.ones_like(position))}),
        "induction": ProbeQuestion(at(position - length + 1, second), copy),
    }
    rankings = {"itself": _own_token(ids, start, length, generator)}
    return Batch(ids, questions=questions, ov_rankings=rankings, task_rows=second)


def scattered(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    """Random tokens, then the same in another order: every distance, and no repeated context."""
    start, length = len(vocabulary.prefix), _copy_length(vocabulary, WARM_UP)
    generator = torch.Generator().manual_seed(seed)
    once = torch.stack([torch.randperm(len(vocabulary.ordinary), generator=generator)[:length] for _ in range(count)])
    order = torch.stack([torch.randperm(length, generator=generator) for _ in range(count)])
    ids = vocabulary.wrap(vocabulary.ordinary[torch.cat((once, once.gather(1, order)), dim=1)])
    target = torch.full(ids.shape, -1)
    target[:, start + length : start + 2 * length] = order + start
    asked = target >= 0
    rivals = {
        "what followed it": one_key_question((target + 1).where(asked & (target < start + length - 1), -1)),
        "what came before it": one_key_question((target - 1).where(asked & (target > start), -1)),
        "another earlier token": _another(target),
        **offset_questions(asked, (0, 1, 2)),
    }
    made = f"{length} random whole-word tokens, then the same in another order"
    return Probe((Batch(ids, questions={"duplicate": ProbeQuestion(one_key_question(target), rivals)}),), made)


def separated(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    """Make plain sentences with punctuation; without text, random tokens among the given separators."""
    ids = _text(vocabulary, count, seed) if vocabulary.reads_text else _interspersed(vocabulary, count, seed)
    is_separator = vocabulary.is_separator(ids)
    position = torch.arange(ids.shape[1]).expand_as(ids)
    before_end = position < ids.shape[1] - len(vocabulary.suffix)
    asked = (is_separator.int().cumsum(1) > 0) & (position >= WARM_UP) & before_end
    shuffled = _elsewhere(is_separator, torch.Generator().manual_seed(seed))

    def keys(marked: Tensor) -> Question:
        return Question(torch.ones_like(ids).where(asked, -1), torch.ones_like(ids).where(marked, -1))

    rivals = {
        "as many other places": keys(shuffled),
        "the token before each": keys(is_separator.roll(-1, dims=1) & ~is_separator),
        "the token after each": keys(is_separator.roll(1, dims=1) & ~is_separator),
        **offset_questions(asked, (0, 1)),
    }
    text = vocabulary.reads_text
    task_rows = (position >= len(vocabulary.prefix)) & (position < ids.shape[1] - 1 - len(vocabulary.suffix))
    questions = {"separators": ProbeQuestion(keys(is_separator), rivals)}
    batch = Batch(ids, questions=questions, task_rows=task_rows if text else None)
    made = "plain sentences" if text else "random tokens among separators"
    task = "log-probability of the text, nats per token" if text else None
    return Probe((batch,), f"{made}, {ids.shape[1]} tokens", task)


def sequences(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    """Numbers, days, months, letters out of order: each token's successor in its sequence should be raised."""
    vocabulary.require_text()
    known = {name: list(vocabulary.single_tokens(words).values()) for name, words in SEQUENCES.items()}
    whole = {name: ids for name, ids in known.items() if len(ids) == len(SEQUENCES[name]) and len(set(ids)) == len(ids)}
    if not whole:
        raise UntestableError("no sequence (numbers, days, months, letters) has a single token for each of its members")
    generator = torch.Generator().manual_seed(seed)
    batches, start = [], len(vocabulary.prefix)
    for turn, members in enumerate(torch.tensor(ids) for ids in whole.values()):
        rows = (count + len(whole) - 1 - turn) // len(whole)
        if not rows:
            break
        chosen = torch.stack([torch.randperm(len(members) - 2, generator=generator)[:4] + 1 for _ in range(rows)])
        positions = torch.arange(start, start + 4).expand(rows, -1)
        ranking = OVRanking(positions, members[chosen + 1], members[chosen - 1], members)
        batches.append(Batch(vocabulary.wrap(members[chosen]), ov_rankings={"successor": ranking}))
    return Probe(tuple(batches), f"four members out of order of {', '.join(whole)}")


def aligned(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    """A decoder writes words that occur in the source; at which position differs from input to input."""
    length, spare = 12, 10
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.stack(
        [torch.randperm(len(vocabulary.ordinary), generator=generator)[: length + spare] for _ in range(count)]
    )
    words = vocabulary.ordinary[drawn]
    lead = torch.arange(count) % (spare - 1) + 1
    ids, junk = words[:, :length], words[:, length:]
    source = torch.stack([torch.cat((j[:a], i, j[a:])) for i, j, a in zip(ids, junk, lead.tolist(), strict=True)])
    source = vocabulary.wrap(source)
    n_key, position = source.shape[1], torch.arange(length).expand(count, -1)
    target = position + lead[:, None] + len(vocabulary.prefix)
    same, following = (one_key_question(keys, n_key) for keys in (target, target + 1))
    rivals = {
        "the same place": one_key_question(position, n_key),
        "source's first": one_key_question(torch.zeros_like(position), n_key),
        "source's last": one_key_question(torch.full_like(position, n_key - 1), n_key),
        "another word": _another(target, n_key),
    }
    questions = {
        "same word": ProbeQuestion(same, {**rivals, "its next word": following}),
        "next word": ProbeQuestion(following, {**rivals, "its same word": same}),
    }
    made = f"{length} words to write, in a source of {n_key} tokens, {spare} of them others"
    return Probe((Batch(ids, questions=questions, source=source),), made)


def _copy_length(vocabulary: Vocabulary, least: int) -> int:
    """How many tokens fit twice into the context."""
    free = vocabulary.context - len(vocabulary.prefix) - len(vocabulary.suffix)
    length = min(LONGEST, free // 2, len(vocabulary.ordinary))
    if length < least:
        raise UntestableError(f"its context of {vocabulary.context} tokens is too short for two copies of {least}")
    return length


def _another(target: Tensor, n_key: int | None = None) -> Question:
    """Ask each input for the keys that its neighbour in the batch is asked for, where they differ."""
    other = target.roll(1, dims=0)
    return one_key_question(other.where(other != target, -1), n_key)


def _own_token(ids: Tensor, start: int, length: int, generator: torch.Generator) -> OVRanking:
    """Positions of the first copy and the tokens there; the wrong token is from elsewhere in the same input."""
    chosen = torch.stack([torch.randperm(length, generator=generator)[:RANKED] for _ in ids]) + start
    right = ids.gather(1, chosen)
    return OVRanking(chosen, right, right.roll(1, dims=1), torch.unique(ids[:, start : start + length]))


def _other_positions(n: int, total: int, start: int, length: int, generator: torch.Generator) -> Tensor:
    """For each row a position of the first copy that is neither what induction wants there nor next to it."""
    target = torch.arange(total) - length + 1 - start
    jump = torch.randint(3, max(4, length - 3), (n, total), generator=generator)
    return (target + jump) % length + start


def _elsewhere(marked: Tensor, generator: torch.Generator) -> Tensor:
    """As many positions of each input as are marked, drawn from the unmarked ones except the first."""
    chance = torch.rand(marked.shape, generator=generator).masked_fill(marked, -1.0)
    chance[:, 0] = -1.0
    rank = chance.argsort(dim=1, descending=True).argsort(dim=1)
    return rank < marked.sum(1, keepdim=True)


def _text(vocabulary: Vocabulary, count: int, seed: int) -> Int[Tensor, "input token"]:
    body = min(48, vocabulary.context) - len(vocabulary.prefix) - len(vocabulary.suffix)
    texts = [" ".join(filler(10, seed + 1000 * index)) for index in range(count)]
    rows = [torch.tensor(vocabulary.model.processor.token_ids(text)[:body]) for text in texts]
    if min(map(len, rows)) < body:
        raise UntestableError(f"ten sentences are fewer than {body} of its tokens")
    return vocabulary.wrap(torch.stack(rows))


def _interspersed(vocabulary: Vocabulary, count: int, seed: int) -> Int[Tensor, "input token"]:
    if not vocabulary.given_separators:
        raise UntestableError("it has no tokenizer to find separators with; name them: separators=(…)")
    generator = torch.Generator().manual_seed(seed)
    shape = (count, min(48, vocabulary.context))
    words = torch.randint(len(vocabulary.ordinary), shape, generator=generator)
    marks = torch.tensor(vocabulary.given_separators)
    which = torch.randint(len(marks), shape, generator=generator)
    here = torch.rand(shape, generator=generator) < 0.15
    here[:, 0] = False
    return torch.where(here, marks[which], vocabulary.ordinary[words])
