"""Patterns in short context: what they depend on, and heads that run on them."""

from __future__ import annotations

import pytest
import torch
from tests.heads.rules.conftest import texts, without_means

import headscope
from headscope.heads.questions.token_features import TokenFeatures
from headscope.heads.rules import short_context
from headscope.heads.rules.fit import Candidates, shares
from headscope.heads.rules.fit_heads import HeadFitter, Samples
from headscope.heads.rules.library import built_in
from headscope.heads.rules.mixture import Drawn, Mixture, rules_used
from headscope.heads.rules.report import Rules
from headscope.heads.rules.rule import Rule
from headscope.heads.rules.sampled_rows import Drawing, Sample, own_text, relabelled, sample_rows, shuffled_text
from headscope.heads.rules.short_context import pattern_rows, read_short_context
from headscope.scope import Scope

SITES = ("0", "1", "2")


def patterns(scope: Scope, ids: list[int], window: int) -> dict[str, torch.Tensor]:
    calls = read_short_context(scope.model, scope.model.prepare(ids).inputs, len(ids), SITES, window)
    return {site: pattern_rows(call, torch.arange(len(ids)))[0] for site, call in calls.items()}


def test_a_window_as_long_as_the_text_gives_the_patterns_of_the_model(opened: Scope) -> None:
    ids = texts()[5] * 4  # longer than the rows that are computed at once
    assert len(ids) > short_context.ROWS
    found, look = patterns(opened, ids, len(ids)), opened.look(ids)
    for site in SITES:
        assert torch.allclose(found[site], look.patterns(site), atol=1e-5)


def test_the_first_layer_is_its_own_pattern_and_each_layer_knows_of_one_more_token(opened: Scope) -> None:
    ids, place = texts()[3], 20
    changed = [*ids[:place], 3 + (ids[place] - 2) % 37, *ids[place + 1 :]]
    assert torch.allclose(patterns(opened, ids, 2)["0"], opened.look(ids).patterns("0"), atol=1e-5)
    for layer, site in enumerate(SITES):
        scores = [_scores(opened, each, site) for each in (ids, changed)]
        queries = (scores[0] - scores[1])[:, :, :place].abs().amax((0, 2)) > 1e-6
        assert queries.nonzero().flatten().tolist() == list(range(place, place + layer + 1))


def _scores(scope: Scope, ids: list[int], site: str) -> torch.Tensor:
    call = read_short_context(scope.model, scope.model.prepare(ids).inputs, len(ids), SITES)[site]
    rows = torch.arange(len(ids))
    return call.scores.bind(call.q, call.k).before_mask(call.q, call.k, rows, rows, 0)[0]


def context_pattern(scope: Scope, rules: Rules, head: str, ids: list[int]) -> torch.Tensor:
    mixture, rows = rules.mixture(head, "context"), torch.arange(len(ids))
    tokens = TokenFeatures.of(scope.look(ids).tokens)
    drawn = Drawn(rules_used([mixture], rules.known()), tokens, rows, rows <= rows[:, None])
    site, _, index = head.partition(".")
    return drawn.mixture(mixture, patterns(scope, ids, short_context.WINDOW)[site][int(index)])


def test_the_measures_in_short_context_equal_their_definitions(opened: Scope, rules: Rules) -> None:
    assert sum(head.in_context.mixture.in_context for head in rules) >= 6  # those of the first layer at least
    for head in rules.heads[:14:4]:
        whole, rest, beside = [], [], []
        for ids in texts()[2::3]:
            made = context_pattern(opened, rules, str(head.head), ids)[16:]
            found = shares(opened.look(ids).pattern(str(head.head))[16:], made)
            whole.append(found.whole)
            rest.append(found.rest)
            beside.append(found.beside)
        assert head.in_context.explained.value == pytest.approx(float(torch.cat(whole).mean()), abs=2e-3)
        wanted = float(torch.cat(rest).sum() / torch.cat(beside).sum())
        assert head.in_context.rest.value == pytest.approx(wanted, abs=2e-3)


def test_heads_follow_their_patterns_in_short_context_in_looks_and_while_generating(
    opened: Scope, rules: Rules
) -> None:
    rules = without_means(rules)
    heads, ids = ["0.1", "1.4", "2.0"], texts()[3]
    forced = [headscope.force(head, context_pattern(opened, rules, head, ids)) for head in heads]
    with opened.edit(*forced):
        wanted = opened.look(ids).logits
    with opened.edit(headscope.follow(rules, heads, "context")):
        assert torch.allclose(opened.look(ids).logits, wanted, atol=1e-4)
        made = [token.id for token in opened.generate(ids, n_tokens=3).tokens]
        expected: list[int] = []
        for _ in made:
            expected.append(int(opened.look(ids + expected).logits[-1].argmax()))
    assert made == expected


def test_what_is_chosen_explains_no_less_on_the_choosing_texts(opened: Scope) -> None:
    rules = built_in()
    parts = [[own_text(opened.model.prepare(ids)) for ids in texts()[start::3]] for start in range(2)]
    fit, choose = (sample_rows(opened.model, part, rules, Drawing(SITES, 40, 0)) for part in parts)
    nulls = [
        Candidates.of(relabelled(sample, [shuffled_text(text.prepared, 1) for text in part], rules))
        for sample, part in zip((fit, choose), parts, strict=True)
    ]
    fitter = HeadFitter(rules, Samples(fit, choose, *nulls))
    richer = 0
    for head in opened.shape.heads()[::3]:
        fitted, pattern = fitter.fit_head(head), choose.patterns[head.site][head.head]
        own = choose.context[head.site][head.head]
        steps = [fitted.plain, fitted.full, fitted.context]
        found = [shares(pattern, _drawn(choose, rules, mixture, own)) for mixture in steps]
        for one, other in zip(found[1:], found, strict=False):
            assert float(one.explained() - other.explained()) > -2e-3  # weights are rounded to four digits
            assert float(one.of_the_rest() - other.of_the_rest()) > -2e-3
        richer += fitted.context != fitted.plain
    assert richer


def _drawn(sample: Sample, rules: tuple[Rule, ...], mixture: Mixture, own: torch.Tensor) -> torch.Tensor:
    names = [rule.name for rule in rules]
    made = torch.zeros_like(own)
    held = torch.zeros(len(own), 1)
    for name, weight in zip(mixture.rules, mixture.weights, strict=True):
        if name == short_context.NAME:
            each = own
        elif mixture.table is not None and name == "class table":
            each = mixture.table.rows(sample.cells)
        else:
            each = sample.rules[names.index(name)]
        made += weight * each
        held += weight * (each.sum(-1, keepdim=True) > 0)
    made[held[:, 0] == 0, 0] = 1.0
    return made / held.clamp_min(1e-9)
