"""Rules of a whole model: every reported number against its definition on dense patterns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest
import torch
import transformers
from tests.attention.memory import peak_tensor_bytes
from tests.heads.conftest import small_llama
from tests.heads.rules.conftest import OPTIONS, texts
from tests.models import tiny

import headscope
from headscope.app.pages.rules.head_words import rule_pattern
from headscope.attention.progress import progress_callback
from headscope.errors import HeadNameError, InputError
from headscope.heads.questions.token_features import TokenFeatures
from headscope.heads.rules.fit_heads import HeadFit
from headscope.heads.rules.library import built_in
from headscope.heads.rules.mixture import Drawn, Mixture
from headscope.heads.rules.report import Example, HeadRules, RulePart, Rules, open_rules
from headscope.heads.rules.rule import FIRST_TOKEN, near
from headscope.heads.rules.run import RuleOptions, fit_rules
from headscope.heads.rules.sampled_rows import FIRST_ROW
from headscope.heads.rules.sentence import example, numbers, on_content, said
from headscope.names import Head
from headscope.scope import Scope


def dense(scope: Scope, head: HeadRules, mixture: Mixture, ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The pattern and the mixture of one text from the 16th row on."""
    look = scope.look(ids)
    rows = torch.arange(16, len(ids))
    visible = torch.arange(len(ids)) <= rows[:, None]
    drawn = Drawn(built_in(), TokenFeatures.of(look.tokens), rows, visible)
    return look.pattern(str(head.head))[16:], drawn.mixture(mixture)


@pytest.mark.parametrize("kinds", [("sliding", "full"), ("full", "sliding")])
def test_heads_that_attend_equally_are_explained_in_layers_with_and_without_a_window(kinds: tuple[str, str]) -> None:
    model = tiny.build(
        "Gemma2Config", "Gemma2ForCausalLM", **{**tiny.SIZES, "num_key_value_heads": 2}, head_dim=8, sliding_window=6,
        layer_types=[f"{kind}_attention" for kind in kinds],
    )  # fmt: skip
    for layer in model.model.layers:
        torch.nn.init.zeros_(layer.self_attn.q_proj.weight)
    with headscope.load(model, tiny.tokenizer()) as scope:
        found = scope.rules(texts(), replace(OPTIONS, tables=False, context=False))
    for head in found:
        windowed = kinds[int(head.head.site)] == "sliding"
        assert head.first == pytest.approx(0.0 if windowed else 1 / 34, abs=0.02)
        assert head.explained.value > 0.97, (head.head, head.rules)
        if windowed:
            assert [part.name for part in head.rules] == ["all tokens"]


def test_shares_and_gain_equal_their_definitions_on_the_reporting_texts(opened: Scope, rules: Rules) -> None:
    for head in rules.heads[::5]:
        whole, base, first, rest, mass = [], [], [], [], []
        for ids in texts()[2::3]:
            pattern, mixture = dense(opened, head, head.mixture, ids)
            _, position = dense(opened, head, head.position_mixture, ids)
            whole.append(torch.minimum(pattern, mixture).sum(-1))
            base.append(torch.minimum(pattern, position).sum(-1))
            first.append(pattern[:, 0])
            beside, left = 1 - pattern[:, :1], mixture[:, 1:].sum(-1, keepdim=True).clamp_min(1e-12)
            rest.append(torch.minimum(pattern[:, 1:], beside * mixture[:, 1:] / left).sum(-1))
            mass.append(beside[:, 0])
        explained, explained_0 = float(torch.cat(whole).mean()), float(torch.cat(base).mean())
        assert head.explained.value == pytest.approx(explained, abs=2e-3)  # weights are rounded to four digits
        assert head.explained_by_position.value == pytest.approx(explained_0, abs=2e-3)
        assert head.first == pytest.approx(float(torch.cat(first).mean()), abs=1e-3)
        assert head.rest.value == pytest.approx(float(torch.cat(rest).sum() / torch.cat(mass).sum()), abs=2e-3)
        assert head.gain.value == pytest.approx((explained - explained_0) / (1 - explained_0), abs=2e-2)


def test_a_mixture_is_short_and_its_parts_add_up(rules: Rules) -> None:
    for head in rules:
        assert 1 <= len(head.rules) <= 4
        assert sum(part.weight for part in head.rules) == pytest.approx(1, abs=1e-3)
        assert sum(part.part for part in head.rules) == pytest.approx(head.rest.value, abs=2e-3)
        assert len(head.position) <= len(head.rules)
        assert [part.weight for part in head.rules] == sorted((part.weight for part in head.rules), reverse=True)


def test_heads_of_random_weights_gain_nothing_and_are_not_named(rules: Rules) -> None:
    assert abs(rules.means()["gain"]) < 0.03
    assert [head.named for head in rules if head.named] == []


FORMS = ("Hardly rests", "goes to", "where there is one", "depends on content", "For example")


def read_back(head: HeadRules) -> None:
    """Every number of a head's sentence is a fitted one, in its place, and every rule that is said is named."""
    wanted = [head.first]
    for part in said(head):
        wanted += [part.part, *([part.applies] if part.applies < 0.995 else [])]
    wanted.append(1 - head.rest.value)
    wanted += [on_content(head)] if on_content(head) >= 0.01 else []
    shown = example(head)
    wanted += [shown.weight, shown.by_rules] if shown is not None else []
    found = numbers(head.sentence)
    assert len(found) == len(wanted), head.sentence
    assert found == pytest.approx(wanted, abs=0.00501), head.sentence
    for part in said(head):
        assert part.phrase in head.sentence


def test_every_number_of_a_sentence_is_the_fitted_one(rules: Rules) -> None:
    for head in rules:
        read_back(head)


def test_every_form_of_a_sentence_is_read_back(rules: Rules) -> None:
    """Resting or hardly, with each built-in phrase or none, everywhere or where there is one, with what may follow."""
    base = next(iter(rules))
    known = [*built_in(causal=False), near(built_in()[30], 0.25)]
    phrases = [(rule.name, rule.phrase, rule.position) for rule in known if not rule.is_first_token]
    forms = set()
    for at, (first, count, content, shown) in enumerate(
        product((0.0, 0.125, 0.15, 0.987, 1.0), range(len(phrases) // 3 + 1), (0.0, 0.234, 0.6), (False, True))
    ):
        chosen = phrases[3 * count - 3 : 3 * count] if count else []
        parts = tuple(
            RulePart(name, phrase, 0.3, (1.0, 0.125, 0.004)[at // 6 % 3], (0.011, 0.3, 0.004)[place], position)
            for place, (name, phrase, position) in enumerate(chosen)
        )
        rest = replace(base.rest, value=round(sum((part.part for part in parts), 0.0), 4))
        in_context = replace(base.in_context, rest=replace(base.rest, value=rest.value + content))
        examples = (Example("3 %", ".75", 0.994, 0.005),) if shown else ()
        head = replace(base, first=first, rules=parts, rest=rest, in_context=in_context, examples=examples)
        read_back(head)
        forms.add(tuple(words in head.sentence for words in FORMS))
        assert "at 12 %" not in head.sentence, "ties go up, as on the page"
    assert len(forms) == 2 * 3 * 3  # no rule said, some, some where there is one; content, and an example of it


def test_an_example_is_where_a_head_attends_most_beyond_its_rules(opened: Scope, rules: Rules) -> None:
    assert any(example(head) for head in rules)
    looks = [opened.look(text) for text in texts()[2::3]]
    for head in list(rules)[::5]:
        beyond = []
        for look in looks:
            difference = look.pattern(head.head) - rule_pattern(rules, head.head, look)
            difference = difference[FIRST_ROW:].tril(FIRST_ROW - 1)  # neither itself nor …
            beyond.append(float(difference[:, 1:].max()))  # … the first token
        first, *others = head.examples
        assert first.weight - first.by_rules == pytest.approx(max(beyond), abs=2e-3)
        assert all(other.weight - other.by_rules <= first.weight - first.by_rules for other in others)
        assert len({each.tokens for each in head.examples}) == len(head.examples)


def test_tokens_in_a_sentence_are_not_read_as_numbers() -> None:
    assert numbers("Of the rest, .25 is left. For example, “.75” reads “3 %” with .81.") == [0.25, 0.81]


def test_saved_rules_open_again_for_the_same_weights_only(opened: Scope, rules: Rules, tmp_path: Path) -> None:
    rules.save(tmp_path / "rules.json")
    again = open_rules(tmp_path / "rules.json", opened.model)
    assert again == rules
    other = small_llama()
    other.lm_head.weight.data += 1.0
    with headscope.load(other) as changed, pytest.raises(InputError, match="other weights"):
        open_rules(tmp_path / "rules.json", changed.model)
    (tmp_path / "rules.json").write_text("{}")
    with pytest.raises(InputError, match="schema_version None"):
        open_rules(tmp_path / "rules.json")


def test_the_table_has_a_row_for_each_head(rules: Rules) -> None:
    table = rules.to_arrow()
    assert table.num_rows == len(rules) == 18
    assert table.column("sentence").to_pylist() == [head.sentence for head in rules]
    assert {"gain", "gain_low", "gain_high", "null_gain", "rest", "gain_with_table"} <= set(table.column_names)


def test_an_unknown_head_and_too_few_or_short_texts_are_refused(opened: Scope, rules: Rules) -> None:
    with pytest.raises(HeadNameError, match=r"9\.9"):
        rules["9.9"]
    with pytest.raises(InputError, match=r"2 texts.*at least 3"):
        opened.rules(texts()[:2])
    with pytest.raises(InputError, match=r"a text of 20 tokens is too short.*at least 32"):
        opened.rules([list(range(3, 23))] * 3)


def test_a_stopped_fit_goes_on_from_the_heads_that_are_done(opened: Scope, rules: Rules) -> None:
    kept: dict[Head, HeadFit] = {}
    reports: list[int] = []

    def stop(task: str, done: int, total: int) -> None:
        if task == "fitting rules" and done >= 5:
            raise KeyboardInterrupt

    def note(task: str, done: int, total: int) -> None:
        reports.extend([done] if task == "fitting rules" else [])

    with progress_callback(stop), pytest.raises(KeyboardInterrupt):
        fit_rules(opened.model, texts(), OPTIONS, kept)
    assert 5 <= len(kept) < len(rules)
    before = dict(kept)
    with progress_callback(note):
        assert fit_rules(opened.model, texts(), OPTIONS, kept) == rules
    assert min(reports) >= len(before)
    assert all(kept[head] is fitted for head, fitted in before.items())


def test_a_fit_leaves_the_number_of_threads_as_it_was(opened: Scope) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        fit_rules(opened.model, texts()[:3], RuleOptions(fit_rows=8, choose_rows=8, tables=False, context=False))
        with ThreadPoolExecutor(1) as later:
            assert (torch.get_num_threads(), later.submit(torch.get_num_threads).result()) == (2, 2)
    finally:
        torch.set_num_threads(before)


def test_memory_grows_at_most_linearly_with_the_length_of_texts() -> None:
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=1024,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    generator = torch.Generator().manual_seed(7)
    long = [torch.randint(3, 40, (1024,), generator=generator).tolist() for _ in range(3)]
    options = RuleOptions(fit_rows=24, choose_rows=24)
    with headscope.load(model) as scope:
        small, large = (
            peak_tensor_bytes(partial(fit_rules, scope.model, [text[:length] for text in long], options))
            for length in (256, 1024)
        )
    assert large < 5 * small  # a pattern of all heads or rules at once would make it 16 times


def test_rules_without_a_target_somewhere_count_the_first_token_as_a_rule(rules: Rules) -> None:
    always = {rule.name for rule in built_in() if rule.always or rule.position}
    for head in rules:
        names = {part.name for part in head.rules}
        assert names & always or FIRST_TOKEN in names or all(part.applies == 1 for part in head.rules)
