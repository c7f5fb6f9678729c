"""Compiled heads against the rules they were compiled from."""

from __future__ import annotations

import pytest
import torch

import headscope
from headscope.errors import InputError
from headscope.heads.questions.token_features import TokenFeatures
from headscope.heads.roles.shuffled_weights import shuffled_weights
from headscope.heads.rules.library import built_in
from headscope.heads.rules.mixture import Drawn, Mixture
from headscope.heads.rules.rule import FIRST_TOKEN
from headscope.heads.rules.run import RuleOptions
from headscope.lab.compile import PROGRAMS, CompileOptions, Program, compile_program
from headscope.lab.compile.programs import SELECTORS
from headscope.lab.compile.words import CLASSES, VOCABULARY, sample_texts
from headscope.models.protocol import Token

CLEAN = CompileOptions(noise=0.0, decoys=0)
QUICK = RuleOptions(tables=False, fit_rows=96, choose_rows=64)


def test_a_compiled_head_attends_as_its_rule_says_and_rests_where_there_is_no_target() -> None:
    ids = sample_texts(1, 100, seed=3)[0]
    compiled = compile_program(Program("all", tuple(SELECTORS)), CLEAN)
    with headscope.load(compiled.model, compiled.tokenizer) as scope:
        look = scope.look(ids)
        patterns = {head: look.pattern(head)[16:] for head in compiled.truth}
    rows = torch.arange(16, 100)
    drawn = Drawn(built_in(), TokenFeatures.of(look.tokens), rows, torch.arange(100) <= rows[:, None])
    followed = set()
    for head, rule in compiled.truth.items():
        if rule is None:
            continue
        followed.add(rule)
        wanted = drawn.mixture(Mixture((rule, FIRST_TOKEN), (1.0, 0.0)))
        common = torch.minimum(patterns[head], wanted).sum(-1)
        # a query that starts a sentence itself has no target by the rule; the head attends to the query there
        assert float((common > 0.95).float().mean()) > (0.75 if rule.startswith("start") else 0.99), rule
    assert followed == set(SELECTORS)


def test_rotation_hides_the_weights_and_changes_no_pattern() -> None:
    program, ids = PROGRAMS["key and value"], sample_texts(1, 60)[0]
    patterns = []
    for rotate in (False, True):
        compiled = compile_program(program, CompileOptions(noise=0.0, decoys=1, rotate=rotate, seed=4))
        with headscope.load(compiled.model, compiled.tokenizer) as scope:
            patterns.append(scope.look(ids).patterns("1"))
    assert torch.allclose(patterns[0], patterns[1], atol=1e-3)


def test_an_mlp_computes_the_classes_that_later_heads_read() -> None:
    compiled = compile_program(PROGRAMS["count digits"], CompileOptions(mlp=True, noise=0.0, decoys=0))
    assert list(compiled.truth.values()) == [None, "digits"]
    ids = sample_texts(1, 60)[0]
    digits = torch.tensor([VOCABULARY[token] in CLASSES["digits"] for token in ids])
    with headscope.load(compiled.model, compiled.tokenizer) as scope:
        pattern = scope.look(ids).pattern("1.0")
    assert float(pattern[-1][digits].sum()) > 0.99


@pytest.mark.parametrize("name", ["key and value", "clause"])
def test_rules_find_every_job_and_leave_decoys_unnamed(name: str) -> None:
    compiled = compile_program(PROGRAMS[name], CompileOptions(seed=1, decoy_sharpness=3.0))
    with headscope.load(compiled.model, compiled.tokenizer) as scope:
        rules = scope.rules(sample_texts(9, 100, seed=1), QUICK)
        found = {head: rules[head].named for head in compiled.truth}
        assert found == compiled.truth
        assert not any(rules[head].above_null for head, rule in compiled.truth.items() if rule is None)
        with shuffled_weights(scope.model, 0):
            assert {head.named for head in scope.rules(sample_texts(6, 60), QUICK)} == {None}


def test_texts_are_read_back_by_the_tokenizer() -> None:
    ids = sample_texts(1, 50)[0]
    text = "".join(VOCABULARY[token] for token in ids[1:])
    compiled = compile_program(PROGRAMS["rest"], CLEAN)
    with headscope.load(compiled.model, compiled.tokenizer) as scope:
        assert [token.id for token in scope.look(text).tokens] == ids


def test_words_without_spaces_are_words_of_their_own() -> None:
    plain = TokenFeatures.of([Token(0, "<s>"), Token(1, "white"), Token(2, "horse"), Token(3, "##es")])
    assert plain.word.tolist() == [0, 1, 2, 2]


def test_unknown_rules_and_sizes_are_refused() -> None:
    with pytest.raises(InputError, match=r"next token: no head is compiled.*previous token"):
        Program("mine", ("next token",))
    with pytest.raises(InputError, match=r"context=8.*at least 32"):
        CompileOptions(context=8)
