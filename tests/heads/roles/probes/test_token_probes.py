"""Probes made of tokens: every label against the tokens themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.heads.controls import AT, SIZES, opened
from tests.lab.by_hand import HandSizes, by_hand

from headscope.attention.questions import Question
from headscope.heads.roles.probes.probe import Batch, Probe, ProbeQuestion
from headscope.heads.roles.probes.token_probes import (
    LONGEST,
    SEQUENCES,
    WARM_UP,
    aligned,
    repeat,
    scattered,
    sequences,
)
from headscope.heads.roles.probes.vocabulary import UntestableError, Vocabulary
from headscope.models.native import NativeModel


@pytest.fixture(scope="module")
def words() -> Vocabulary:
    """A model that reads words, with a start token before every text."""
    return Vocabulary(opened(by_hand("induction", SIZES)))


@pytest.fixture(scope="module")
def bare() -> Vocabulary:
    """A model without a tokenizer, whose tokens 3 and 5 are separators."""
    sizes = HandSizes(vocabulary=64, context=96)
    return Vocabulary(NativeModel(by_hand("induction", sizes), None, "bare"), separators=(3, 5))


def found(question: Question, item: int, row: int) -> list[int]:
    """The keys that a row of an input is asked to find."""
    query = question.query[item if len(question.query) > 1 else 0, row]
    keys = question.key[item if len(question.key) > 1 else 0]
    return [] if query < 0 else (keys == query).nonzero().flatten().tolist()


def asking(ask: ProbeQuestion, item: int) -> list[int]:
    return (ask.wanted.query[item] != -1).nonzero().flatten().tolist()


def rows(probe: Probe) -> Iterator[tuple[Batch, int, list[int]]]:
    for batch in probe.batches:
        for item, ids in enumerate(batch.ids.tolist()):
            yield batch, item, ids


def test_induction_asks_for_what_followed_the_earlier_copy(words: Vocabulary) -> None:
    for batch, item, ids in rows(repeat(words, 8, seed=1)):
        ask = batch.questions["induction"]
        for row in asking(ask, item):
            (target,) = found(ask.wanted, item, row)
            assert ids[target - 1] == ids[row]
            assert ids[target] == ids[row + 1]
            assert target < row
            assert found(ask.rivals["the earlier copy itself"], item, row) == [target - 1]
            assert found(ask.rivals["two after the earlier copy"], item, row) == [target + 1]
            (other,) = found(ask.rivals["another token of the first copy"], item, row)
            assert abs(other - target) > 1


def test_questions_by_position_ask_for_that_key_alone(words: Vocabulary) -> None:
    wanted = {"previous": -1, "itself": 0, "next": 1}
    for batch, item, _ in rows(repeat(words, 8, seed=2)):
        for name, step in wanted.items():
            ask = batch.questions[name]
            assert all(found(ask.wanted, item, row) == [row + step] for row in asking(ask, item))
            assert min(asking(ask, item)) == 1 + WARM_UP
        first = batch.questions["first"]
        assert all(found(first.wanted, item, row) == [0] for row in asking(first, item))
        assert all(found(first.rivals["second token"], item, row) == [1] for row in asking(first, item))


def test_no_rival_asks_for_what_the_question_wants(words: Vocabulary) -> None:
    for batch, item, _ in rows(repeat(words, 8, seed=3)):
        for name in ("previous", "itself", "next", "induction"):
            ask = batch.questions[name]
            for row in asking(ask, item):
                (target,) = found(ask.wanted, item, row)
                clash = [rival for rival, one in ask.rivals.items() if found(one, item, row) == [target]]
                assert clash in ([], ["another place"]), (name, clash)


def test_scattered_repeats_ask_for_the_same_token_earlier(words: Vocabulary) -> None:
    for batch, item, ids in rows(scattered(words, 6, seed=0)):
        ask = batch.questions["duplicate"]
        assert len(asking(ask, item)) == LONGEST
        for row in asking(ask, item):
            (target,) = found(ask.wanted, item, row)
            assert target < row
            assert ids[target] == ids[row]
            assert found(ask.rivals["what followed it"], item, row) in ([], [target + 1])
            assert found(ask.rivals["what came before it"], item, row) in ([], [target - 1])
            assert target not in found(ask.rivals["another earlier token"], item, row)


def test_the_right_token_of_a_sequence_is_the_successor_and_the_wrong_one_the_predecessor(words: Vocabulary) -> None:
    members = [[AT[word] for word in each] for each in SEQUENCES.values()]
    for batch, item, ids in rows(sequences(words, 24, seed=0)):
        ranking = batch.ov_rankings["successor"]
        for place, right, wrong in zip(*(part[item].tolist() for part in (ranking.positions, ranking.right, ranking.wrong)), strict=True):  # fmt: skip  # noqa: E501
            (home,) = [each for each in members if ids[place] in each]
            at = home.index(ids[place])
            assert (home[at + 1], home[at - 1]) == (right, wrong)
            assert ranking.candidates.tolist() == home


def test_alignment_asks_for_the_same_word_in_the_source(words: Vocabulary) -> None:
    (batch,) = aligned(words, 20, seed=0).batches
    assert batch.source is not None
    leads = set()
    for item, (ids, source) in enumerate(zip(batch.ids.tolist(), batch.source.tolist(), strict=True)):
        for row, token in enumerate(ids):
            (place,) = found(batch.questions["same word"].wanted, item, row)
            assert source[place] == token
            assert found(batch.questions["next word"].wanted, item, row) == [place + 1]
            assert place not in found(batch.questions["same word"].rivals["another word"], item, row)
        leads.add(place - row)
    assert len(leads) == 9, "how far in differs from input to input"


@pytest.mark.parametrize(("make", "least"), [(repeat, WARM_UP + 6), (scattered, WARM_UP)])
def test_a_context_too_short_is_refused_with_its_length(make: object, least: int) -> None:
    assert callable(make)
    short = Vocabulary(NativeModel(by_hand("induction", HandSizes(vocabulary=64, context=12)), None, "short"))
    with pytest.raises(UntestableError, match=f"context of 12 tokens is too short for two copies of {least}"):
        make(short, 4, seed=0)


def test_a_probe_split_for_memory_keeps_every_input_in_order(
    words: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = repeat(words, 16, seed=0)
    monkeypatch.setattr("headscope.heads.roles.probes.probe.LARGEST_LOGITS", 3 * SIZES.vocabulary * 52)
    small = probe.fit_memory(words.model)
    assert max(batch.ids.numel() for batch in small.batches) <= 3 * 52
    assert len(small.batches) > len(probe.batches)
    assert small.n_inputs == probe.n_inputs

    def every(each: Probe) -> list[list[int]]:
        return [ids for batch in each.batches for ids in batch.ids.tolist()]

    assert every(small) == every(probe)
