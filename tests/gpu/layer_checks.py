"""Checks of layers observed together, of looks and of scans on a real GPU; they run without pytest too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers

import headscope
from headscope.attention.backends.fused import layers
from headscope.attention.observation import Distance, Observation, Rows, Strongest
from headscope.heads.look.look import Look
from headscope.scan import waiting_sites
from headscope.scan.corpus.packing import PackedRows, Piece, RowFormat
from headscope.scan.measure import Measurer, Plan
from headscope.scan.options import ScanOptions
from tests.attention.cases import Case, truth
from tests.attention.expected import assert_statistics, questions
from tests.gpu.checks import ALL

NAMES = {
    "length-1", "length-1025", "full", "d-head-17", "d-head-256", "grouped", "window", "padding-left", "documents",
    "softcap", "after-a-cache", "gqa-128", "everything-composed",
}  # fmt: skip
LAYER_CASES = tuple(case for case in ALL if case.name in NAMES)


def check_layers(case: Case, dtype: torch.dtype) -> None:
    """Two layers observed together, each with the statistics of the case by the definition."""
    q, k, _ = case.qkv(dtype, "cuda")
    bound, asked = case.scores.bind(q, k), questions(case.batch, case.n_query, case.keys)
    rows: Any = layers.observe_layers(torch.cat((q, q)), torch.cat((k, k)), bound, asked)
    z = truth(case, dtype).output.to("cuda", dtype)
    for items in (slice(None, case.batch), slice(case.batch, None)):
        parts = (rows.logsumexp[items], rows.entropy[items], Distance(*(part[items] for part in rows.distance)))
        strongest = Strongest(*(part[items] for part in rows.strongest))
        mass = {name: values[items] for name, values in rows.mass.items()}
        seen = Observation(Rows(z, *parts, strongest, mass), "layers", q, k, bound)
        assert_statistics(seen, case, atol=2e-5, dtype=dtype)


def check_looks_on_both_paths() -> None:
    """A look whose layers are observed together equals one whose layers are observed in the pass; so does a batch."""
    texts = [list(range(3, 60)) + list(range(3, 40)), [7], [3, 4, 3, 4, 3]]
    for made in (small_llama, small_gpt2):
        with headscope.load(made()) as scope:
            scope.look(texts)
            together = [scope.look(texts[0]), *scope.look(texts)[1:]]
            assert not any(look.cache.sites for look in together)
            with one_by_one():
                alone = [scope.observe(text) for text in texts]
            assert all(look.cache.sites for look in alone)
            for ours, theirs in zip(together, alone, strict=True):
                _assert_equal_looks(ours, theirs)


def check_scans_on_both_paths() -> None:
    """Sites summed together give the sums of sites one by one, and the same bytes every time."""
    with headscope.load(small_llama()) as scope:
        ids = torch.randint(3, 20, (4, 48), generator=torch.Generator().manual_seed(0))
        pieces = (Piece(0, 0, 20, 0, 0), Piece(0, 20, 48, 1, 0), Piece(1, 0, 48, 2, 0), Piece(2, 0, 40, 3, 0))
        rows = PackedRows(ids, (*pieces, Piece(3, 0, 2, 4, 0), Piece(3, 2, 48, 5, 0)))
        plan = Plan.make(scope.model, ScanOptions(replicates=5, batch=4), RowFormat(48), 1, "document")
        measurer = Measurer(scope.model, plan)
        together = measurer.measure(rows)
        assert measurer.measure(rows).to_bytes() == together.to_bytes()
        with one_by_one():
            alone = measurer.measure(rows)
        assert torch.equal(together.count, alone.count)
        torch.testing.assert_close(together.squares, alone.squares, atol=2e-2, rtol=2e-3)
        torch.testing.assert_close(together.largest, alone.largest, atol=1e-2, rtol=1e-3)


def check_a_model_on_the_second_gpu() -> None:
    """A look and a scan where the current device is another one; nothing to check on a machine with one GPU."""
    if torch.cuda.device_count() < 2:
        return
    text = [3, 4, 3, 4, 3, 9, 9]
    rows = PackedRows(torch.tensor([text]), (Piece(0, 0, 7, 0, 0),))
    with headscope.load(small_llama()) as first, headscope.load(small_llama().cuda(1)) as second:
        ours, theirs = second.look(text), first.look(text)
        for site in theirs.sites:
            for name, mean in theirs.mean_answers(site).items():
                torch.testing.assert_close(ours.mean_answers(site)[name].to(mean), mean, atol=1e-4, rtol=1e-3)
        tallies = []
        for scope in (second, first):
            plan = Plan.make(scope.model, ScanOptions(replicates=5), RowFormat(7), 1, "document")
            tallies.append(Measurer(scope.model, plan).measure(rows))
    torch.testing.assert_close(tallies[0].sums, tallies[1].sums, atol=1e-3, rtol=1e-3)


LAYER_OTHERS = (check_looks_on_both_paths, check_scans_on_both_paths, check_a_model_on_the_second_gpu)


@contextmanager
def one_by_one() -> Iterator[None]:
    """Observe every layer in the pass, as a long text's."""
    before = layers.LONGEST, waiting_sites.LONGEST
    layers.LONGEST = waiting_sites.LONGEST = 0
    try:
        yield
    finally:
        layers.LONGEST, waiting_sites.LONGEST = before


def small_llama() -> Any:
    """Three layers, six heads that share three KV heads; weights large enough for attention to matter."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=96, intermediate_size=64, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=3, max_position_embeddings=256,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.2)
    return model.cuda()


def small_gpt2() -> Any:
    torch.manual_seed(1)
    config = transformers.GPT2Config(vocab_size=89, n_embd=64, n_layer=2, n_head=4, n_positions=128)
    model = transformers.GPT2LMHeadModel(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model.cuda()


def _assert_equal_looks(ours: Look, theirs: Look) -> None:
    def close(mine: Any, other: Any, atol: float = 1e-4, rtol: float = 1e-3) -> None:
        torch.testing.assert_close(mine, other, atol=atol, rtol=rtol)

    close(ours.logits, theirs.logits)
    for site in theirs.sites:
        mine, other = ours.statistics(site), theirs.statistics(site)
        close(mine.output, other.output)
        close(mine.entropy, other.entropy)
        close(mine.distance, other.distance, atol=5e-2)
        close(mine.strongest, other.strongest)
        close(mine.mass, other.mass)
        close(ours.mean_answers(site), theirs.mean_answers(site))
        close(ours.patterns(site), theirs.patterns(site))
        close(ours.value_norms(f"{site}.1"), theirs.value_norms(f"{site}.1"))
