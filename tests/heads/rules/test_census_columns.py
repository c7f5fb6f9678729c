"""The census table with the rules of each head beside its questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import headscope
from headscope import ScanOptions
from headscope.app.json_output import census_json
from headscope.cli.rules import corpus_rules
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


def test_a_scan_with_rules_fits_them_on_its_corpus_once_and_writes_them_into_its_json(tmp_path: Path) -> None:
    compiled = compile_program(PROGRAMS["induction"], CompileOptions(decoys=1))
    texts = ["".join(VOCABULARY[token] for token in each[1:]) for each in sample_texts(3, 80)]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("\n".join(json.dumps({"text": text}) for text in texts), encoding="utf-8")
    with headscope.load(compiled.model, compiled.tokenizer) as scope:
        rules = corpus_rules(scope, [str(corpus)], tmp_path / "rules.json")
        assert corpus_rules(scope, ["no such corpus"], tmp_path / "rules.json") == rules  # read, not fitted again
        census = scope.scan(str(corpus), options=ScanOptions(context=64, replicates=4, progress=False))
    written = json.loads(json.dumps(census_json(census, rules)))
    assert [head["sentence"] for head in written["rules"]["heads"]] == [head.sentence for head in rules]
    assert all(row["rules_sentence"] == rules[row["head"]].sentence for row in written["rows"])
    assert "rules" not in census_json(census)
