"""The census table with the rules of each head beside its questions."""

from __future__ import annotations

import pytest
import torch

import headscope
from headscope import ScanOptions
from headscope.errors import InputError
from headscope.heads.rules.run import RuleOptions
from headscope.lab.compile import PROGRAMS, CompileOptions, compile_program
from headscope.lab.compile.words import VOCABULARY, sample_texts


def test_every_row_of_a_head_holds_its_sentence_and_gain() -> None:
    compiled = compile_program(PROGRAMS["induction"], CompileOptions(decoys=1))
    ids = sample_texts(3, 80)
    texts = ["".join(VOCABULARY[token] for token in each[1:]) for each in ids]
    with headscope.load(compiled.model, compiled.tokenizer) as scope:
        rules = scope.rules(ids, RuleOptions(tables=False, fit_rows=32, choose_rows=32))
        census = scope.scan(texts, options=ScanOptions(context=64, replicates=4, progress=False))
        table = census.to_arrow(rules)
        assert set(table.column_names) - set(census.to_arrow().column_names) >= {"rules_sentence", "rules_gain"}
        for row in table.to_pylist():
            assert row["rules_sentence"] == rules[row["head"]].sentence
            assert row["rules_gain"] == rules[row["head"]].gain.value
        with torch.no_grad():
            scope.model.model.unembedding.weight.mul_(2)  # type: ignore[union-attr, operator]
        others = scope.rules(ids, RuleOptions(tables=False, fit_rows=32, choose_rows=32))
    with pytest.raises(InputError, match="other weights than this census's"):
        census.to_arrow(others)
