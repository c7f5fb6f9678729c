"""What a scope does with any module: looks, questions, edits, attribution, importance, scans, generation."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from tests.models import tiny
from tests.models.any_torch.modules import VOCABULARY, WIDTH, Attention, Gpt, Vit, ids, picture, states
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import headscope
from headscope.heads.questions.label_rules import LabelRule
from headscope.models.any_torch.model import AnyTorchModel
from headscope.scan.options import ScanOptions
from headscope.scope import Scope


@pytest.fixture
def gpt() -> Iterator[Scope]:
    torch.manual_seed(0)
    with headscope.load(Gpt(), tiny.tokenizer(), inputs={"idx": ids(), "targets": ids()}) as scope:
        yield scope


def test_token_ids_are_read_with_the_targets_next_to_them(gpt: Scope) -> None:
    assert isinstance(gpt.model, AnyTorchModel)
    assert gpt.shape.vocabulary == VOCABULARY
    look = gpt.look([3, 1, 4, 1, 5])
    own = gpt.model.model(torch.tensor([[3, 1, 4, 1, 5]]), torch.tensor([[3, 1, 4, 1, 5]]))[0][0]
    torch.testing.assert_close(look.logits, own.detach())
    assert {"previous", "induction", "duplicate"} <= set(look.mean_answers("1"))


class Conditioned(Gpt):
    """With one vector per text and one for all positions beside the ids."""

    def forward(self, idx: Tensor, style: Tensor, weights: Tensor) -> Tensor:  # type: ignore[override]
        x = (self.wte(idx) + self.wpe(torch.arange(idx.shape[1])) + style[:, None]) * weights
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def test_one_text_is_read_with_the_first_of_what_was_given_with_several() -> None:
    torch.manual_seed(0)
    model, style, weights = Conditioned().eval(), torch.randn(2, WIDTH), torch.rand(WIDTH)
    with headscope.load(model, inputs={"idx": ids().repeat(2, 1), "style": style, "weights": weights}) as scope:
        own = model(torch.tensor([[3, 1, 4, 1, 5]]), style[:1], weights)[0]
        torch.testing.assert_close(scope.look([3, 1, 4, 1, 5]).logits, own.detach())


def test_a_logit_is_split_over_the_heads(gpt: Scope) -> None:
    look = gpt.look([3, 1, 4, 1, 5])
    found = look.logit_attribution(7)
    assert len(found.heads) == gpt.shape.n_heads
    assert found.total == pytest.approx(float(look.logits[-1, 7]), abs=1e-5)
    final = look.recorded.final(4)
    parts = look.contributions(4)
    written = sum(site.output for site in parts.sites.values())
    mlps = sum(look.recorded.part(f"mlp {site}")[4] for site in gpt.shape.sites)
    torch.testing.assert_close(look.recorded.value("resid_pre 0")[4] + written + mlps, final, rtol=1e-4, atol=1e-5)


def test_importance_is_the_change_of_the_loss(gpt: Scope) -> None:
    text = [3, 1, 4, 1, 5, 9, 2, 6]
    exact = {entry.head: entry for entry in gpt.importance([text])}
    gradient = {entry.head: entry.loss.mean for entry in gpt.importance([text], how="gradient")}
    head, entry = next(iter(exact.items()))
    target = torch.tensor([text])
    own = gpt.look(text).logits
    with gpt.edit(headscope.ablate(head)):
        ablated = gpt.look(text).logits
    losses = [nn.functional.cross_entropy(logits[:-1], target[0, 1:]) for logits in (ablated, own)]
    assert entry.loss.mean == pytest.approx(float(losses[0] - losses[1]), abs=1e-5)
    assert set(gradient) == set(exact)


def test_it_generates_and_is_scanned(gpt: Scope, tmp_path: object) -> None:
    greedy = gpt.generate([3, 1, 4], n_tokens=3)
    with torch.no_grad():
        text = torch.tensor([[3, 1, 4]])
        for token in greedy.tokens:
            assert token.id == int(gpt.model.model(text, text)[0][0, -1].argmax())
            text = torch.cat((text, torch.tensor([[token.id]])), dim=1)
    census = gpt.scan(["the cat sat on the mat " * 8] * 2, options=ScanOptions(context=16, workers=1))
    assert census.to_arrow().num_rows > 0


def test_a_question_with_labels_of_the_user_s_own() -> None:
    with headscope.load(Vit(), inputs=picture()) as scope:
        look = scope.look(picture())
        first_row = LabelRule(
            "first row", lambda t: [1] * len(t), lambda t: [1 if "patch 0," in x.text else -1 for x in t]
        )
        answers = look.ask(first_row)
        own = look.pattern("0.1")[:, 1:5].sum(1).mean()
        assert answers[headscope.Head("0", 1)] == pytest.approx(float(own), abs=1e-6)


def test_a_model_without_logits_has_contributions(gpt: Scope) -> None:
    with headscope.load(Vit(), inputs=picture()) as scope:
        assert scope.shape.vocabulary is None
        site = scope.look(picture()).contributions(0).sites["1"]
        assert site.error < 1e-5


@pytest.mark.parametrize("eager", [False, True])
def test_edits_in_one_thread_do_not_reach_another(eager: bool) -> None:
    torch.manual_seed(0)
    model = Vit(eager=eager)
    with headscope.load(model, inputs=picture()) as scope:
        own = scope.look(picture()).logits
        plain_model = model(picture()).detach()
        ready, done, wrong = threading.Event(), threading.Event(), list[str]()

        def other() -> None:
            ready.set()
            for _ in range(10):
                if not torch.equal(scope.look(picture()).logits, own):
                    wrong.append("a look without edits")
                with torch.no_grad():
                    if not torch.equal(model(picture()), plain_model):
                        wrong.append("the module itself")
            done.set()

        thread = threading.Thread(target=other)
        thread.start()
        ready.wait()
        with scope.edit(headscope.ablate("0.1")):
            edited = scope.look(picture()).logits
            for _ in range(50):
                if not torch.equal(scope.look(picture()).logits, edited):
                    wrong.append("an edited look")
        thread.join()
    assert done.is_set()
    assert wrong == []
    assert not torch.equal(own, edited)


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that is made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func: object, types: object, args: object = (), kwargs: object = None) -> object:
        out = func(*args, **(kwargs or {}))  # type: ignore[operator, misc, arg-type]
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self.numel = max(self.numel, tensor.untyped_storage().nbytes() // tensor.element_size())
        return out


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(WIDTH, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attn(x, x, x)[0]


@pytest.mark.parametrize("make", [Attention, lambda: Attention(causal=True), _Layer], ids=["sdpa", "causal", "mha"])
def test_nothing_of_queries_by_keys_is_made(make: type[nn.Module]) -> None:
    sizes = []
    with headscope.load(make(), inputs=states(1, 9)) as scope:
        for length in (1024, 2048):
            with Largest() as largest:
                scope.look(states(1, length))
            sizes.append(largest.numel)
    assert sizes[1] <= 2.1 * sizes[0]
    assert sizes[1] < 2048**2


def test_an_arrow_is_explained_next_to_a_weight_that_is_computed() -> None:
    """Reading a weight under weight norm runs a module, in the middle of the pass that is recorded."""
    torch.manual_seed(0)
    model = Gpt().eval()
    nn.utils.parametrizations.weight_norm(model.h[0].mlp[0])
    with headscope.load(model, inputs=(ids(), ids())) as scope:
        look = scope.look(ids()[0])
        why = look.why("1.0", 5, 2)
        assert why.weight == pytest.approx(float(look.pattern("1.0")[5, 2]), abs=1e-5)
