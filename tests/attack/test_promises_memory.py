"""Memory grows with the length of a text, not with its square: on the texts that make it worst, in bytes of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import transformers

from headscope import load
from headscope.app.pages.microscope import Session
from headscope.app.pages.tiles import WeightsRequest
from headscope.attention import Scores, causal, observe
from headscope.attention.backends import dense, sdpa
from headscope.attention.backends.fused.host import KernelInputs
from headscope.attention.questions import Groups, single_or_groups
from headscope.errors import BackendError
from headscope.heads.look.sampling import Sampling, Steps, cuts
from headscope.heads.questions.standard_questions import standard_questions
from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from headscope.scope import Scope
from tests.attention.memory import peak_tensor_bytes, storages_kept
from tests.scan.tiny import open_tiny

SHORT, LONG = 1_024, 4_096
VOCABULARY = 97
TEXTS: dict[str, Callable[[int], list[int]]] = {
    "one token": lambda n: [7] * n,
    "two tokens": lambda n: [7, 8] * (n // 2),
    "a sentence": lambda n: (list(range(20, 50)) * n)[:n],
}
worst = pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=name, marks=() if name == "two tokens" else pytest.mark.slow)
        for name, text in TEXTS.items()
    ],
)


def linear(work: Callable[[int], object]) -> bool:
    """Four times the length takes at most four times the bytes, and an eighth for buffers of whole tiles."""
    short, long = (peak_tensor_bytes(lambda n=n: work(n)) for n in (SHORT, LONG))
    assert short > 0
    return long <= 4.5 * short


@pytest.fixture(scope="module")
def scope() -> Iterator[Scope]:
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2 * LONG, eos_token_id=None,
    )  # fmt: skip
    with load(transformers.LlamaForCausalLM(config).eval()) as scope:
        yield scope


@worst
def test_a_look_takes_memory_in_proportion_to_its_length(scope: Scope, text: Callable[[int], list[int]]) -> None:
    def look(n: int) -> object:
        look = scope.look(text(n))
        return look, look.table(), look.predictions()

    assert linear(look)


@worst
def test_a_tile_of_one_cell_takes_no_more_memory_than_a_picture(scope: Scope, text: Callable[[int], list[int]]) -> None:
    """One number for the whole pattern is the worst: a cell of all pairs."""
    looks = {n: scope.look(text(n)) for n in (SHORT, LONG)}
    for look in looks.values():
        look.source("1.3")  # what any picture needs first: the sum of each row
    for cells in ((1, 1), (3, 2), (64, 64)):
        assert linear(lambda n, cells=cells: looks[n].pooled("1.3", cells)), cells


def test_the_page_pools_a_whole_text_into_one_number(scope: Scope) -> None:
    page = Session(scope)
    kept = {n: page.kept.look(page.adopt(scope.look([7] * n))) for n in (SHORT, LONG)}
    tiles = {n: look.tiles for n, look in kept.items() if look is not None}
    asked = WeightsRequest(look="", head="0.0", rows=(0, LONG), columns=(0, LONG), pool=10**9, how="mean")
    for look in kept.values():
        assert look is not None
        look.look.source("0.0")
    assert linear(lambda n: tiles[n].tile(asked)[1])
    assert tiles[SHORT].tile(asked)[1].item() == pytest.approx(1 / SHORT, rel=1e-4), "every row sums to one"


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (5, 2), (513, 3)])
def test_pooled_cells_longer_than_a_block_are_means_and_maxima_of_the_pattern(
    scope: Scope, shape: tuple[int, int]
) -> None:
    look = scope.look([(5 * at * at) % VOCABULARY for at in range(1_301)])
    pattern, pooled = look.pattern("1.2").double(), look.pooled("1.2", shape)
    rows, columns = (torch.arange(n + 1) * len(pattern) // n for n in shape)
    for row in {0, shape[0] // 2, shape[0] - 1}:
        for column in {0, shape[1] - 1}:
            cell = pattern[rows[row] : rows[row + 1], columns[column] : columns[column + 1]]
            assert pooled.mean[0, row, column].item() == pytest.approx(cell.mean().item(), rel=1e-4, abs=1e-9)
            assert pooled.maximum[0, row, column].item() == pytest.approx(cell.max().item(), rel=1e-4, abs=1e-9)


@worst
def test_every_backend_of_long_texts_takes_memory_in_proportion_to_their_length(
    text: Callable[[int], list[int]],
) -> None:
    def attended(n: int, backend: str | None) -> object:
        q, k, v = (torch.randn(1, heads, n, 8) for heads in (4, 2, 2))
        questions = standard_questions(torch.tensor([text(n)]))
        if backend is None:
            return sdpa.attention(q, k, v, Scores(mask=causal(), softcap=30.0))
        return observe(q, k, v, scores=Scores(mask=causal()), questions=questions, backend=backend)

    for backend in ("blockwise", None):
        assert linear(lambda n, backend=backend: attended(n, backend)), backend


@worst
def test_the_lists_of_the_fused_backend_take_memory_in_proportion_to_their_length(
    text: Callable[[int], list[int]],
) -> None:
    """What is made on the host; the kernels make one number per row."""

    def prepared(n: int) -> object:
        q = torch.zeros(1, 1, n, 8)
        inputs = KernelInputs.prepare(q, q, q, Scores(mask=causal()).bind(q, q))
        asked = standard_questions(torch.tensor([text(n)])).values()
        plans = [(question, single_or_groups(question, q.device)) for question in asked]
        return [inputs._key_ranges(question, plan) for question, plan in plans if isinstance(plan, Groups)]

    assert len(prepared(64)) == 2  # type: ignore[arg-type]
    assert linear(prepared)


def test_the_dense_backend_refuses_a_pattern_that_it_would_have_to_store() -> None:
    n = int((dense.LARGEST // 4) ** 0.5) + 1
    q = torch.empty(1, 1, n, 1)
    with pytest.raises(BackendError, match=r"dense stores the pattern, 2\.1 GB here"):
        observe(q, q, q, backend="dense")


@pytest.mark.parametrize(
    "text", ["ab", *(pytest.param(text, marks=pytest.mark.slow) for text in ("a", "the cat sat on a mat; "))]
)
def test_a_scan_takes_memory_in_proportion_to_its_context(text: str) -> None:
    model = open_tiny(context=LONG)

    def scanned(n: int) -> object:
        options = ScanOptions(context=n, batch=1, replicates=2, examples=1, threads=1)
        return scan(model, [(text * n)[: n - 1]], options=options)

    assert linear(scanned)


def test_generating_keeps_a_row_of_logits_a_token_and_no_allocation_of_its_own(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tensor kept per token lies between two growing KV caches, whose memory the allocator then cannot reuse."""
    monkeypatch.setattr(Steps, "ROWS", 32)
    short, long = 32, 64
    sampling = Sampling(temperature=1.0, top_k=9, top_p=0.9)
    allocations = {n: storages_kept(lambda n=n: scope.generate([7, 8], n, sampling)) for n in (short, long)}
    assert allocations[long] == allocations[short] + 1
    kept = [peak_tensor_bytes(lambda n=n: scope.generate([7, 8], n, sampling)) for n in (short, long)]
    assert kept[1] <= 2.25 * kept[0]


def test_the_distribution_of_each_step_is_that_of_its_logits(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Steps, "ROWS", 8)
    sampling = Sampling(temperature=0.7, top_k=9, top_p=0.9)
    made = scope.generate([7, 8], Steps.ROWS + 3, sampling)
    ids = [7, 8, *(token.id for token in made.tokens)]
    assert len(made.steps) == len(made.tokens)
    for step in (0, 1, Steps.ROWS - 1, Steps.ROWS, -1):
        at = step % len(made.steps)
        expected = cuts(scope.look(ids[: at + 2]).logits[-1], sampling)
        torch.testing.assert_close(made.steps[step].model, expected.model)
        torch.testing.assert_close(made.steps[at : at + 1][0].top_p, expected.top_p)
    with pytest.raises(IndexError, match="step 11 of 11"):
        made.steps[11]
