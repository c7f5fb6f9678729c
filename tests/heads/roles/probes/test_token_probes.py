"""Probes made of tokens: every label against the tokens themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tests.heads.controls import AT, SIZES, WORDS, opened
from torch import Tensor

from headscope.attention.questions import Question
from headscope.heads.roles.probes.probe import Batch, Probe, ProbeQuestion
from headscope.heads.roles.probes.token_probes import (
    LONGEST,
    RANKED,
    SEQUENCES,
    WARM_UP,
    aligned,
    repeat,
    scattered,
    separated,
    sequences,
)
from headscope.heads.roles.probes.vocabulary import UntestableError, Vocabulary
from headscope.lab.teach.by_hand import HandSizes, by_hand
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


def test_repeats_are_wrapped_drawn_once_and_of_four_lengths(words: Vocabulary) -> None:
    probe = repeat(words, 32, seed=4)
    assert [len(batch) for batch in probe.batches] == [8, 8, 8, 8]
    lengths = set()
    for _, _, ids in rows(probe):
        assert ids[0] == AT["<s>"]
        half = (len(ids) - 1) // 2
        assert ids[1 : 1 + half] == ids[1 + half :]
        assert len(set(ids[1 : 1 + half])) == half
        lengths.add(half)
    assert lengths == {LONGEST, LONGEST - 2, LONGEST - 4, LONGEST - 6}


@pytest.mark.parametrize("count", [1, 5, 30, 33])
def test_a_probe_has_as_many_inputs_as_were_asked_for(words: Vocabulary, count: int) -> None:
    assert repeat(words, count, seed=0).n_inputs == count
    assert scattered(words, count, seed=0).n_inputs == count
    assert separated(words, count, seed=0).n_inputs == count
    assert sequences(words, count, seed=0).n_inputs == count


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


def test_ov_rankings_have_the_token_at_the_position_and_another_one(words: Vocabulary) -> None:
    for batch, item, ids in rows(repeat(words, 8, seed=5)):
        ranking = batch.ov_rankings["itself"]
        places, right, wrong = (part[item].tolist() for part in (ranking.positions, ranking.right, ranking.wrong))
        assert len(set(places)) == RANKED
        assert [ids[place] for place in places] == right
        assert all(a != b for a, b in zip(right, wrong, strict=True))
        assert set(right) | set(wrong) <= set(ranking.candidates.tolist())


def test_the_task_is_the_second_copy_where_it_can_be_predicted(words: Vocabulary) -> None:
    for batch, item, ids in rows(repeat(words, 8, seed=6)):
        assert batch.task_rows is not None
        rows_of_task = batch.task_rows[item].nonzero().flatten().tolist()
        half = (len(ids) - 1) // 2
        assert rows_of_task == list(range(1 + half, 2 * half))


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


def test_scattered_repeats_have_every_distance(words: Vocabulary) -> None:
    (batch,) = scattered(words, 32, seed=0).batches
    ask = batch.questions["duplicate"]
    distances = [row - found(ask.wanted, item, row)[0] for item in range(32) for row in asking(ask, item)]
    assert len(set(distances)) > 30
    assert max(distances.count(distance) for distance in set(distances)) / len(distances) < 0.1


def test_separators_are_the_punctuation_and_never_the_first_token(words: Vocabulary) -> None:
    for batch, item, ids in rows(separated(words, 6, seed=0)):
        ask = batch.questions["separators"]
        marks = [place for place, token in enumerate(ids) if WORDS[token] in {".", ","}]
        for row in asking(ask, item):
            assert found(ask.wanted, item, row) == marks
            others = found(ask.rivals["as many other places"], item, row)
            assert len(others) == len(marks)
            assert not set(others) & {0, *marks}
            before = found(ask.rivals["the token before each"], item, row)
            assert before == [mark - 1 for mark in marks if mark - 1 not in marks]


def test_without_a_tokenizer_separators_are_those_given(bare: Vocabulary) -> None:
    probe = separated(bare, 6, seed=0)
    assert probe.task is None
    for batch, item, ids in rows(probe):
        ask = batch.questions["separators"]
        marks = [place for place, token in enumerate(ids) if token in (3, 5)]
        assert all(found(ask.wanted, item, row) == marks for row in asking(ask, item))


def test_without_a_tokenizer_separators_have_to_be_given() -> None:
    silent = Vocabulary(NativeModel(by_hand("induction", HandSizes(vocabulary=64, context=96)), None, "bare"))
    with pytest.raises(UntestableError, match=r"no tokenizer to find separators with; name them: separators=\(…\)"):
        separated(silent, 4, seed=0)


def test_the_right_token_of_a_sequence_is_the_successor_and_the_wrong_one_the_predecessor(words: Vocabulary) -> None:
    members = [[AT[word] for word in each] for each in SEQUENCES.values()]
    for batch, item, ids in rows(sequences(words, 24, seed=0)):
        ranking = batch.ov_rankings["successor"]
        for place, right, wrong in zip(*(part[item].tolist() for part in (ranking.positions, ranking.right, ranking.wrong)), strict=True):  # fmt: skip  # noqa: E501
            (home,) = [each for each in members if ids[place] in each]
            at = home.index(ids[place])
            assert (home[at + 1], home[at - 1]) == (right, wrong)
            assert ranking.candidates.tolist() == home


def test_sequences_need_a_text(bare: Vocabulary) -> None:
    with pytest.raises(UntestableError, match="it reads no text"):
        sequences(bare, 4, seed=0)


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


@pytest.mark.parametrize("make", [repeat, scattered, separated, sequences, aligned])
def test_equal_seeds_make_equal_probes_and_others_do_not(words: Vocabulary, make: object) -> None:
    assert callable(make)
    first, again, other = (torch.cat([b.ids.flatten() for b in make(words, 12, seed).batches]) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("make", "least"), [(repeat, WARM_UP + 6), (scattered, WARM_UP)])
def test_a_context_too_short_is_refused_with_its_length(make: object, least: int) -> None:
    assert callable(make)
    short = Vocabulary(NativeModel(by_hand("induction", HandSizes(vocabulary=64, context=12)), None, "short"))
    with pytest.raises(UntestableError, match=f"context of 12 tokens is too short for two copies of {least}"):
        make(short, 4, seed=0)


def same_question(a: Question, b: Question) -> bool:
    return torch.equal(a.query, b.query) and torch.equal(a.key, b.key) and a.exclude_self == b.exclude_self


def test_a_part_of_a_batch_asks_what_the_whole_asks_there(words: Vocabulary) -> None:
    batch = repeat(words, 16, seed=0).batches[0]
    part = batch.part(1, 3)
    assert torch.equal(part.ids, batch.ids[1:3])
    for name, ask in batch.questions.items():
        for row in asking(ask, 2):
            assert found(part.questions[name].wanted, 1, row) == found(ask.wanted, 2, row)
        assert set(part.questions[name].rivals) == set(ask.rivals)
    assert torch.equal(part.ov_rankings["itself"].positions, batch.ov_rankings["itself"].positions[1:3])


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


def test_row_weights_average_over_the_asked_rows() -> None:
    query = torch.tensor([[-1, 2, 2, -1], [-1, -1, -1, -1]])
    weights: Tensor = ProbeQuestion(Question(query, torch.arange(4)), {}).row_weights(2)
    assert weights.tolist() == [[0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0]]
