"""Measuring rows: inputs as the model takes them, units of the bootstrap, and a tally that batches do not change."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from headscope.attention.backends.fused.layers import MOST_QUESTIONS
from headscope.attention.engine import observe
from headscope.attention.masks import causal
from headscope.attention.observer import Call
from headscope.attention.questions import Question
from headscope.attention.scores import Scores
from headscope.errors import InputError
from headscope.models.finite import PassCheck
from headscope.models.loading import open_model
from headscope.models.modes import threads
from headscope.models.native import NativeModel
from headscope.scan import waiting_sites
from headscope.scan.corpus.document_split import DocumentBlock
from headscope.scan.corpus.packing import PackedRows, RowFormat, pack
from headscope.scan.labels import question_names
from headscope.scan.measure import Measurer, Plan, _bootstrap_units, _SiteBuffers, forward_parameters, model_inputs
from headscope.scan.options import ScanOptions
from headscope.scan.tally.reduction import TRAITS
from headscope.scan.tally.tally import Tally, TallyLayout
from tests.runs.pretended_gpu import NamingGPU, on_gpu
from tests.scan.tally.kernels_here import use_kernels_here
from tests.scan.tiny import Bytes, TinyModel, family, open_tiny, texts

MODEL = open_tiny(context=48)


def packed(count: int = 6, context: int = 48) -> PackedRows:
    documents = [(number, MODEL.processor.token_ids(text)) for number, text in enumerate(texts(count, seed=3))]
    (rows,) = pack(documents, RowFormat(context), 999)
    return rows


def plan(**changed: Any) -> Plan:
    options = ScanOptions(batch=2, replicates=4, examples=2)
    return replace(Plan.make(MODEL, options, RowFormat(48), 1, "document"), **changed)


@pytest.mark.parametrize("batch", [1, 99])
def test_the_batch_size_changes_no_sum(batch: int) -> None:
    rows = packed()
    one, two = (Measurer(MODEL, plan(batch=size)).measure(rows) for size in (2, batch))
    torch.testing.assert_close(one.means(), two.means(), equal_nan=True, atol=1e-6, rtol=1e-6)
    assert torch.equal(one.head_counts(), two.head_counts())
    torch.testing.assert_close(one.largest, two.largest, atol=1e-6, rtol=1e-6)
    for question in range(len(question_names(()))):
        first, second = one.examples.of(question, 0), two.examples.of(question, 0)
        assert [each[1:4] for each in first] == [each[1:4] for each in second]


def test_progress_counts_every_token_once() -> None:
    advanced: list[int] = []
    rows = packed()
    Measurer(MODEL, plan(batch=3)).measure(rows, advanced.append)
    assert len(advanced) == -(-len(rows.ids) // 3)
    assert sum(advanced) == rows.n_tokens


def test_two_halves_merged_are_the_whole() -> None:
    rows = packed()
    half = len(rows.ids) // 2 // 2 * 2
    parts = list(rows.batches(half))
    measurer = Measurer(MODEL, plan())
    joined = measurer.measure(parts[0])
    for part in parts[1:]:
        joined = joined.merge(measurer.measure(part))
    whole = measurer.measure(rows)
    torch.testing.assert_close(joined.means(), whole.means(), equal_nan=True)
    torch.testing.assert_close(joined.replicate_means(), whole.replicate_means(), equal_nan=True)
    assert torch.equal(joined.entropy, whole.entropy)


def test_measuring_does_not_change_the_logits() -> None:
    rows = packed()
    measurer = Measurer(MODEL, plan())
    logits: list[Tensor] = []
    hook = MODEL.model.register_forward_hook(lambda module, given, out: logits.append(out.detach()))
    measurer.measure(PackedRows(rows.ids[:2], tuple(piece for piece in rows.pieces if piece.row < 2)))
    hook.remove()
    for piece in rows.pieces:
        if piece.row < 2:
            with torch.no_grad():
                alone = MODEL.model(rows.ids[piece.row : piece.row + 1, piece.start : piece.stop])[0]
            torch.testing.assert_close(logits[0][piece.row, piece.start : piece.stop], alone, atol=5e-3, rtol=5e-3)


def test_a_site_outside_the_layout_is_not_measured() -> None:
    full = plan()
    smaller = TallyLayout(**{**vars(full.layout), "sites": full.layout.sites[:1]})
    found = Measurer(MODEL, plan(layout=smaller)).measure(packed())
    whole = Measurer(MODEL, full).measure(packed())
    torch.testing.assert_close(found.means(), whole.means()[:, :2], equal_nan=True)


def test_bootstrap_units_are_documents_or_single_pieces() -> None:
    (rows,) = pack([(number, list(range(40))) for number in range(30)], RowFormat(16), 999)
    assert _bootstrap_units(rows, "document") == [piece.document for piece in rows.pieces]
    drawn = _bootstrap_units(rows, "piece")
    assert len(set(drawn)) == len(rows.pieces) == 90
    assert _bootstrap_units(PackedRows(rows.ids, rows.pieces[::-1]), "piece") == drawn[::-1], (
        "a piece's number does not depend on other pieces"
    )


def test_threads_are_restored_even_after_an_error() -> None:
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    with pytest.raises(ZeroDivisionError), threads(before + 2):
        raise ZeroDivisionError
    assert torch.get_num_threads() == before


def test_a_plain_model_gets_only_token_ids() -> None:
    rows = packed()
    given = model_inputs(MODEL, rows, None)
    assert set(given) == {"input_ids"}
    assert torch.equal(given["input_ids"], rows.ids)


def test_positions_start_at_the_first_position_of_the_family() -> None:
    rows = packed()
    model = open_model(family("roberta"), Bytes())
    assert "position_ids" in forward_parameters(model)
    positions = model_inputs(model, rows, 2)["position_ids"]
    for piece in rows.pieces:
        assert positions[piece.row, piece.start : piece.stop].tolist() == list(range(2, 2 + piece.stop - piece.start))
    assert "position_ids" not in model_inputs(model, rows, None)


def test_a_decoder_gets_the_encoder_s_tokens_and_only_one_position_s_logits_are_requested() -> None:
    rows = packed()
    both = model_inputs(open_model(family("t5"), Bytes()), rows, None)
    assert torch.equal(both["decoder_input_ids"], rows.ids)
    llama = model_inputs(open_model(family("llama"), Bytes()), rows, 0)
    assert llama["logits_to_keep"].tolist() == [0]


def test_causality_is_per_site() -> None:
    model = open_model(family("t5"), Bytes())
    measurer = Measurer(model, Plan.make(model, ScanOptions(), RowFormat(48), 1, "document"))
    assert measurer.causal == {
        name: name.startswith("decoder") and not name.endswith("cross") for name in model.shape.sites
    }


def test_calls_of_another_length_are_computed_but_not_measured() -> None:
    """A model that also runs on half of the text: that call is not in the tally."""

    class Twice(TinyModel):
        def forward(self, ids: Tensor) -> Tensor:
            self.halves = super().forward(ids[:, : ids.shape[1] // 2])
            return super().forward(ids)

    twice = Twice(context=48)
    opened = NativeModel(twice, Bytes(), name="tiny")
    rows = packed()
    found = Measurer(opened, plan()).measure(rows)
    expected = Measurer(MODEL, plan()).measure(rows)
    assert twice.halves.shape[1] == 24
    torch.testing.assert_close(found.means(), expected.means(), equal_nan=True)
    assert torch.equal(found.head_counts(), expected.head_counts())


class Stream:
    """The stream of a GPU; notes when somebody has waited for it."""

    def __init__(self, device: torch.device, waited: list[str]) -> None:
        self.device, self.waited = device, waited

    def record_event(self) -> Stream:
        return self

    def synchronize(self) -> None:
        self.waited.append(str(self.device))


def test_sums_are_added_after_the_batch_has_ended_on_every_gpu_and_been_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model that is spread over two GPUs: its sums are copied by the streams of both."""
    order: list[str] = []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream(device, order))
    monkeypatch.setattr(PassCheck, "verify", lambda self: order.append("checked"))
    monkeypatch.setattr(Tally, "add", lambda self, site, *_: order.append(f"added {site}"))
    measurer, rows = Measurer(MODEL, plan()), packed()
    observer = measurer._run(next(rows.batches(2)))
    for gpu in (0, 1):
        observer.checks[0].z.values[f"on {gpu}"] = [on_gpu(gpu, torch.tensor(1.0), NamingGPU)]
    observer.finish()
    observer.add_to(Tally.zero(measurer.plan.layout))
    assert sorted(order[:2]) == ["cuda:0", "cuda:1"]
    assert order[2:] == ["checked", *(f"added {site}" for site, _ in measurer.plan.layout.sites)]


def observed_call(sinks: bool = False) -> tuple[Call, dict[str, Question]]:
    """Three rows of seven positions, two heads on one key head, values of five numbers, two questions."""
    q, k, v = torch.randn(3, 2, 7, 4), torch.randn(3, 1, 7, 4), torch.randn(3, 1, 7, 5)
    scores = Scores(scale=0.5, mask=causal(), sinks=torch.tensor([0.5, -1.0]) if sinks else None)
    labels = torch.arange(7).expand(3, 7)
    questions = {"itself": Question(labels, labels), "previous": Question(labels - 1, labels)}
    return Call(torch.nn.Identity(), q, k, v, scores), questions


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("rows", [(1,), (0, 2)])
def test_a_block_is_written_at_its_rows_and_columns_and_nothing_elsewhere(rows: tuple[int, ...], sinks: bool) -> None:
    call, questions = observed_call(sinks)
    at, columns = list(rows), slice(2, 6)
    inside = {
        name: Question(each.query[at, columns], each.key[at, columns], each.exclude_self)
        for name, each in questions.items()
    }
    parts = (each[at][:, :, columns] for each in (call.q, call.k, call.v))
    seen = observe(*parts, scores=call.scores, questions=inside)
    buffers = _SiteBuffers(call, len(questions))
    buffers.fill(DocumentBlock(rows, 2, 6), seen)
    found = (seen.entropy, *seen.distance, seen.strongest.weight, *seen.mass.values())
    expected = torch.zeros(3, len(TRAITS) + 4, 2, 7)
    expected[at, : len(found), :, columns] = torch.stack(found, 1)
    assert torch.equal(buffers.values, expected)
    assert buffers.nulls.shape == (3, 2, 2, 7)
    strongest = torch.full((3, 7, 2), -1)
    strongest[at, columns] = seen.strongest.key.transpose(1, 2) + 2
    assert torch.equal(buffers.strongest, strongest), "keys are columns of the row"
    on_keys = torch.ones(3, 2, 7)
    on_keys[at, :, columns] = 1 - seen.sink
    assert torch.equal(buffers.on_keys, on_keys)
    assert bool((buffers.on_keys < 1).any()) is sinks
    z = torch.zeros(3, 2, 7, 5)
    z[at, :, columns] = seen.output
    assert torch.equal(buffers.z, z)


def test_the_output_of_a_whole_call_is_not_copied() -> None:
    call, questions = observed_call()
    seen = observe(call.q, call.k, call.v, scores=call.scores, questions=questions)
    buffers = _SiteBuffers(call, len(questions))
    buffers.fill(DocumentBlock((0, 1, 2), 0, 7), seen)
    assert buffers.z is seen.output


@pytest.mark.parametrize("most_questions", [MOST_QUESTIONS, 5, 4])
@pytest.mark.parametrize("at_once", [waiting_sites.AT_ONCE, 1])
def test_sites_that_wait_are_measured_when_their_batch_has_run(monkeypatch, most_questions: int, at_once: int) -> None:
    """As on a GPU, with what its kernels compute in their place."""
    rows = packed(4)
    alone = Measurer(MODEL, plan()).measure(rows)
    use_kernels_here(monkeypatch)
    monkeypatch.setattr(waiting_sites, "MOST_QUESTIONS", most_questions)
    monkeypatch.setattr(waiting_sites, "AT_ONCE", at_once)
    together = Measurer(MODEL, plan()).measure(rows)
    for name in ("count", "entropy", "distance"):
        assert torch.equal(getattr(together, name), getattr(alone, name))
    for name in ("sums", "squares", "largest", "smallest", "drawn_sums", "drawn_count"):
        torch.testing.assert_close(getattr(together, name), getattr(alone, name), atol=1e-4, rtol=1e-4)
    for head in range(4):
        found, expected = ([each[1:] for each in tally.examples.of(1, head)] for tally in (together, alone))
        assert found == expected


def test_scores_whose_last_digit_decides_are_refused_by_their_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight of such a row would be wrong; a census is not made of it."""
    model = open_tiny(context=48)
    model.model.layers[1].q_proj.weight.data.mul_(1e6)
    for waits in (False, True):
        if waits:
            use_kernels_here(monkeypatch)
        with pytest.raises(InputError, match=r"site 1: attention scores reach .* exact to 0.001 up to 8,192"):
            Measurer(model, plan()).measure(packed(3))


def test_a_plan_is_given_by_name_and_not_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        plan().batch = 3  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional argument"):
        Plan(*vars(plan()).values())  # type: ignore[misc]
