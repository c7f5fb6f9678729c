"""Probes made of tokens alone: repeats, scattered repeats, separators, sequences, and a source to align with."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from headscope.attention.questions import Question
from headscope.heads.roles.probes.grammar import filler
from headscope.heads.roles.probes.probe import Ask, Batch, Probe, Reading, offsets, towards
from headscope.heads.roles.probes.repeat_probe import RepeatProbe
from headscope.heads.roles.probes.vocabulary import UntestableError, Vocabulary

WARM = 8  # rows before this place have too little to look at
LONGEST = 25  # tokens of one copy, as in the published recipes
READ = 8  # places of each input whose reading is judged


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SEQUENCES: dict[str, tuple[str, ...]] = {
    "number words": _words("one two three four five six seven eight nine ten eleven twelve"),
    "digits": tuple("123456789"),
    "days": _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    "months": _words("January February March April May June July August September October November December"),
    "ordinals": _words("first second third fourth fifth sixth seventh eighth ninth tenth"),
    "letters": tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
}


def repeat(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    """Random tokens, then the same again; four lengths, so that no fixed distance answers for a head."""
    start, spare = len(vocabulary.prefix), len(vocabulary.prefix) + len(vocabulary.suffix)
    longest = min(LONGEST, (vocabulary.room - spare) // 2, len(vocabulary.ordinary))
    if longest < WARM + 6:
        raise UntestableError(f"its context of {vocabulary.room} tokens is too short for two copies of {WARM + 6}")
    batches = []
    for turn in range(min(4, count)):
        length = longest - 2 * turn
        rows = (count + 3 - turn) // 4
        drawn = RepeatProbe(vocabulary=len(vocabulary.ordinary), length=length, rows=rows, seed=seed + turn, start=None)
        ids = vocabulary.wrap(vocabulary.ordinary[drawn.tokens()])
        batches.append(_repeat_batch(ids, start, length, seed + turn))
    made = f"{longest - 6}–{longest} random whole-word tokens, twice"
    return Probe(tuple(batches), made, "log-probability of the second copy, nats a token")


def _repeat_batch(ids: Int[Tensor, "input token"], start: int, length: int, seed: int) -> Batch:
    n, total = ids.shape
    place = torch.arange(total).expand(n, -1)
    generator = torch.Generator().manual_seed(seed)
    anywhere = (place >= start + WARM) & (place < start + 2 * length - 1)
    second = (place >= start + length) & (place < start + 2 * length - 1)
    elsewhere = _other_places(n, total, start, length, generator)
    near = offsets(anywhere, (0, 1, 2, 3, 5, -1, -2))
    first = {"first token": towards(torch.zeros_like(place).where(anywhere, -1))}
    another = {"another place": towards(elsewhere.where(anywhere, -1))}

    def ask(wanted: str, rivals: dict[str, Question]) -> Ask:
        every = {**near, **first, **another, **rivals}
        return Ask(every.pop(wanted), every)

    copy = {
        "the earlier copy itself": towards((place - length).where(second, -1)),
        "two after the earlier copy": towards((place - length + 2).where(second, -1)),
        "another token of the first copy": towards(elsewhere.where(second, -1)),
        **offsets(second, (0, 1, 2)),
    }
    return Batch(
        ids,
        asks={
            "previous": ask("offset -1", {}),
            "next": ask("offset +1", {}),
            "itself": ask("itself", {}),
            "first": ask("first token", {"second token": towards(torch.ones_like(place).where(anywhere, -1))}),
            "induction": Ask(towards((place - length + 1).where(second, -1)), copy),
        },
        readings={"itself": _own_token(ids, start, length, generator)},
        graded=second,
    )


def scattered(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    """Random tokens, then the same in another order: every distance, and no repeated context."""
    start, spare = len(vocabulary.prefix), len(vocabulary.prefix) + len(vocabulary.suffix)
    length = min(LONGEST, (vocabulary.room - spare) // 2, len(vocabulary.ordinary))
    if length < WARM:
        raise UntestableError(f"its context of {vocabulary.room} tokens is too short for two copies of {WARM}")
    generator = torch.Generator().manual_seed(seed)
    once = torch.stack([torch.randperm(len(vocabulary.ordinary), generator=generator)[:length] for _ in range(count)])
    order = torch.stack([torch.randperm(length, generator=generator) for _ in range(count)])
    ids = vocabulary.wrap(vocabulary.ordinary[torch.cat((once, once.gather(1, order)), dim=1)])
    target = torch.full(ids.shape, -1)
    target[:, start + length : start + 2 * length] = order + start
    asking = target >= 0
    inside = asking & (target < start + length - 1)
    rivals = {
        "what followed it": towards((target + 1).where(inside, -1)),
        "what came before it": towards((target - 1).where(asking & (target > start), -1)),
        "another earlier token": towards(target.roll(1, dims=0).where(target.roll(1, dims=0) != target, -1)),
        **offsets(asking, (0, 1, 2)),
    }
    made = f"{length} random whole-word tokens, then the same in another order"
    return Probe((Batch(ids, asks={"duplicate": Ask(towards(target), rivals)}),), made)


def separated(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    """Plain sentences with their full stops and commas; random tokens among given separators where there is no text."""
    ids = _text(vocabulary, count, seed) if vocabulary.reads_text else _interspersed(vocabulary, count, seed)
    is_separator = vocabulary.is_separator(ids)
    place = torch.arange(ids.shape[1]).expand_as(ids)
    seen = is_separator.int().cumsum(1) > 0
    asking = seen & (place >= WARM) & (place < ids.shape[1] - len(vocabulary.suffix))
    query = torch.ones_like(ids).where(asking, -1)
    generator = torch.Generator().manual_seed(seed)
    shuffled = _elsewhere(is_separator, generator)

    def keys(marked: Tensor) -> Question:
        return Question(query, torch.ones_like(ids).where(marked, -1))

    rivals = {
        "as many other places": keys(shuffled),
        "the token before each": keys(is_separator.roll(-1, dims=1) & ~is_separator),
        "the token after each": keys(is_separator.roll(1, dims=1) & ~is_separator),
        **offsets(asking, (0, 1)),
    }
    graded = (place >= len(vocabulary.prefix)) & (place < ids.shape[1] - 1 - len(vocabulary.suffix))
    made = "plain sentences" if vocabulary.reads_text else "random tokens among separators"
    task = "log-probability of the text, nats a token" if vocabulary.reads_text else None
    batch = Batch(ids, asks={"separators": Ask(keys(is_separator), rivals)}, graded=graded if task else None)
    return Probe((batch,), f"{made}, {ids.shape[1]} tokens", task)


def sequences(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    """Numbers, days, months, letters out of order: each place should raise what comes next in its own sequence."""
    vocabulary.need_text()
    known = {name: list(vocabulary.single(words).values()) for name, words in SEQUENCES.items()}
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
        places = torch.arange(start, start + 4).expand(rows, -1)
        reading = Reading(places, members[chosen + 1], members[chosen - 1], members)
        batches.append(Batch(vocabulary.wrap(members[chosen]), readings={"successor": reading}))
    return Probe(tuple(batches), f"four members out of order of {', '.join(whole)}")


def aligned(vocabulary: Vocabulary, count: int, seed: int) -> Probe:
    """A decoder writes words that stand somewhere in the source; how far in differs from input to input."""
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
    n_key, place = source.shape[1], torch.arange(length).expand(count, -1)
    same = place + lead[:, None] + len(vocabulary.prefix)
    rivals = {
        "the same place": towards(place, n_key),
        "source's first": towards(torch.zeros_like(place), n_key),
        "source's last": towards(torch.full_like(place, n_key - 1), n_key),
        "another word": towards(same.roll(1, dims=0).where(same.roll(1, dims=0) != same, -1), n_key),
    }
    asks = {
        "same word": Ask(towards(same, n_key), {**rivals, "its next word": towards(same + 1, n_key)}),
        "next word": Ask(towards(same + 1, n_key), {**rivals, "its same word": towards(same, n_key)}),
    }
    made = f"{length} words to write, in a source of {n_key} tokens, {spare} of them others"
    return Probe((Batch(ids, asks=asks, source=source),), made)


def _own_token(ids: Tensor, start: int, length: int, generator: torch.Generator) -> Reading:
    """Places of the first copy, and the token that stands there; the wrong one stands elsewhere in the same input."""
    n = len(ids)
    chosen = torch.stack([torch.randperm(length, generator=generator)[:READ] for _ in range(n)]) + start
    right = ids.gather(1, chosen)
    return Reading(chosen, right, right.roll(1, dims=1), torch.unique(ids[:, start : start + length]))


def _other_places(n: int, total: int, start: int, length: int, generator: torch.Generator) -> Tensor:
    """For each row a place of the first copy that is not what induction wants there, and not its neighbour."""
    target = torch.arange(total) - length + 1 - start
    jump = torch.randint(3, max(4, length - 3), (n, total), generator=generator)
    return (target + jump) % length + start


def _elsewhere(marked: Tensor, generator: torch.Generator) -> Tensor:
    """As many places of each input as are marked, among the unmarked ones, the first left out."""
    chance = torch.rand(marked.shape, generator=generator).masked_fill(marked, -1.0)
    chance[:, 0] = -1.0
    rank = chance.argsort(dim=1, descending=True).argsort(dim=1)
    return rank < marked.sum(1, keepdim=True)


def _text(vocabulary: Vocabulary, count: int, seed: int) -> Int[Tensor, "input token"]:
    length = min(48, vocabulary.room)
    body = length - len(vocabulary.prefix) - len(vocabulary.suffix)
    rows = []
    for index in range(count):
        ids = vocabulary.model.token_ids(" ".join(filler(10, seed + 1000 * index)))
        rows.append(torch.tensor(ids[:body]))
    if min(map(len, rows)) < body:
        raise UntestableError(f"ten sentences are fewer than {body} of its tokens")
    return vocabulary.wrap(torch.stack(rows))


def _interspersed(vocabulary: Vocabulary, count: int, seed: int) -> Int[Tensor, "input token"]:
    if not vocabulary.given_separators:
        raise UntestableError("without a tokenizer, which tokens are separators has to be said: separators=(…)")
    generator = torch.Generator().manual_seed(seed)
    length = min(48, vocabulary.room)
    words = torch.randint(len(vocabulary.ordinary), (count, length), generator=generator)
    marks = torch.tensor(vocabulary.given_separators)
    which = torch.randint(len(marks), (count, length), generator=generator)
    here = torch.rand((count, length), generator=generator) < 0.15
    here[:, 0] = False
    return torch.where(here, marks[which], vocabulary.ordinary[words])
