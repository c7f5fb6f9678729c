"""Cross-attention can be asked: mean_answers and ask give what the dense pattern gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.models import tiny
from torch import nn
from typer.testing import CliRunner

import headscope
from headscope.cli import app
from headscope.heads.questions.label_rules import token_class
from headscope.heads.questions.standard_questions import _cross_questions, monotone_share
from headscope.names import Head

SOURCE, WRITTEN = "the horse crossed the road because it was tired", "the road was"


def test_the_standard_questions_of_a_cross_site_are_those_of_its_pattern() -> None:
    with headscope.load(tiny.t5(), tiny.tokenizer()) as scope:
        look = scope.look((SOURCE, WRITTEN))
        site = next(name for name, one in scope.shape.sites.items() if one.kind == "cross")
        answers, patterns = look.mean_answers(site), look.patterns(site)
        assert set(answers) == {"first", "diagonal", "same token", "monotone"}
        torch.testing.assert_close(answers["first"], patterns[:, :, 0].mean(1))
        queries = [token.id for token in look.query_tokens(site)]
        keys = [token.id for token in look.key_tokens(site)]
        same = torch.tensor([[q == k for k in keys] for q in queries])
        rows = same.any(1)
        torch.testing.assert_close(answers["same token"], (patterns * same).sum(-1)[:, rows].mean(1))
        strongest = patterns.argmax(-1)
        own = (strongest[:, 1:] >= strongest[:, :-1]).float().mean(1)
        torch.testing.assert_close(answers["monotone"], own)
        rows_of_table = look.table().to_pylist()
        assert {row["statistic"] for row in rows_of_table if row["site"] == site} >= set(answers)


def test_a_question_of_one_s_own_is_put_to_both_texts() -> None:
    with headscope.load(tiny.t5(), tiny.tokenizer()) as scope:
        look = scope.look((SOURCE, WRITTEN))
        site = next(name for name, one in scope.shape.sites.items() if one.kind == "cross")
        answers = look.ask(token_class("road to horse", "horse", "road"))
        query = [token.text for token in look.query_tokens(site)].index("road")
        key = [token.text for token in look.key_tokens(site)].index("horse")
        for head in range(scope.shape.sites[site].n_heads):
            own = float(look.pattern(Head(site, head))[query, key])
            assert answers[Head(site, head)] == pytest.approx(own, abs=1e-6)


def test_a_diagonal_and_a_monotone_pattern_are_told_from_others() -> None:
    asked = _cross_questions(torch.zeros(6, dtype=torch.long), torch.zeros(12, dtype=torch.long), words=False)
    assert set(asked) == {"first", "diagonal"}
    assert asked["diagonal"].query[0].tolist() == [0, 1, 2, 3, 4, 5]
    assert asked["diagonal"].key[0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    one, nine = torch.zeros(1, dtype=torch.long), torch.zeros(9, dtype=torch.long)
    assert set(_cross_questions(one, nine, words=False)) == {"first"}
    shares = monotone_share(torch.tensor([[0, 2, 2, 5], [5, 2, 1, 0]]))
    assert shares is not None
    assert shares.tolist() == [1.0, 0.0]
    assert monotone_share(torch.tensor([[3]])) is None


def test_a_module_of_torch_answers_at_its_cross_attention() -> None:
    torch.manual_seed(0)
    model = nn.Transformer(32, 4, 1, 1, 64, batch_first=True)
    with headscope.load(model, inputs=(torch.randn(1, 9, 32), torch.randn(1, 5, 32))) as scope:
        look = scope.look((torch.randn(1, 9, 32), torch.randn(1, 5, 32)))
        answers = look.mean_answers("decoder.layers.0.multihead_attn")
        assert set(answers) == {"first", "diagonal", "monotone"}


def test_look_takes_the_decoder_s_words(tmp_path: Path) -> None:
    tiny.t5().save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    shown = CliRunner().invoke(app, ["look", SOURCE, "--written", WRITTEN, "--model", str(tmp_path), "--json"])
    assert shown.exit_code == 0, shown.output
    with headscope.load(tmp_path) as scope:
        own = scope.look((SOURCE, WRITTEN)).predictions()[0]
    assert str(own.token.text) in json.dumps(json.loads(shown.stdout), ensure_ascii=False)
