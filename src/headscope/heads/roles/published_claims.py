"""Published claims about the heads of known models, and how they compare with a report on a model's own weights.

Only claims that were read in the source named with them. Heads are counted from 0. Published scores depend on their
recipe (tokens, start token, whether position 0 is renormalised away), so sets and ranks are compared, not decimals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from headscope.heads.roles.report import Report, Trial

Outcome = Literal["agrees", "differs", "not tested"]


@dataclass(frozen=True)
class _Claim:
    """A set of heads of one model that a source gives a role; ``scores`` are the published ones, if there are any."""

    models: tuple[str, ...]
    role: str
    heads: tuple[str, ...]
    source: str
    scores: Mapping[str, float] | None = None
    note: str = ""

    def __str__(self) -> str:
        published = self.scores or {}
        heads = ", ".join(f"{head} {published[head]:.2f}" if head in published else head for head in self.heads)
        return f"{self.role}: {heads}. {self.source}" + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True)
class ClaimCheck:
    """One head of a claim compared with a report: the head's score, and its rank among all heads on that role."""

    claim: Annotated[_Claim, Field(exclude=True)]
    head: str
    outcome: Outcome
    score: float | None
    rank: int | None
    why: str

    def __str__(self) -> str:
        shown = "" if self.score is None else f", scores {self.score:.2f}, rank {self.rank}"
        why = f" ({self.why})" if self.why else ""
        published = (self.claim.scores or {}).get(self.head)
        there = "" if published is None else f"; {published:.2f} there"
        return f"{self.head} {self.claim.role}: {self.outcome}{shown}{why}. {self.claim.source}{there}"


WANG = "Wang et al. 2022, the circuit in Easy-Transformer's ioi_circuit_extraction.py"
SONG = "Song et al., removal-ih/IH_list of ood-generalization-via-composition (25 random tokens twice, no start token)"
WU = "Wu et al. 2024, head_score files of the retrieval-head repository (score above .5)"
GPT2 = ("gpt2", "gpt2-small")


def _scored(models: tuple[str, ...], role: str, source: str, **scores: float) -> _Claim:
    """Heads written h5_1=.987, because a keyword cannot hold a dot."""
    by_head = {name[1:].replace("_", "."): score for name, score in scores.items()}
    return _Claim(models, role, tuple(by_head), source, by_head)


CLAIMS: tuple[_Claim, ...] = (
    _Claim(GPT2, "name mover", ("9.9", "10.0", "9.6"), WANG),
    _Claim(GPT2, "backup name mover", ("10.10", "10.6", "10.2", "10.1", "11.2", "9.7", "9.0", "11.9"), WANG,
          note="they act when the name movers are gone; the battery has no such role"),
    _Claim(GPT2, "negative name mover", ("10.7", "11.10"), WANG),
    _Claim(GPT2, "S-inhibition", ("7.3", "7.9", "8.6", "8.10"), WANG),
    _Claim(GPT2, "induction", ("5.5", "5.8", "5.9", "6.9"), WANG),
    _Claim(GPT2, "duplicate token", ("0.1", "0.10", "3.0"), WANG),
    _Claim(GPT2, "previous token", ("2.2", "4.11"), WANG,
          note="TransformerLens's head_detector demo finds 2.2 diffuse"),
    _Claim(GPT2, "negative name mover", ("10.7",), "McDougall et al. 2023, Copy Suppression",
          note="described as copy suppression, of which the negative name mover is an instance"),
    _Claim(GPT2, "greater-than", ("5.1", "5.5", "6.9", "7.10", "8.8", "8.11", "9.1"),
          "Hanna et al. 2023, circuit_discovery.py", note="ACDC's list differs; the battery has no such role"),
    _scored(GPT2, "induction", SONG, h5_1=.987, h6_9=.966, h5_5=.958, h7_10=.920, h10_7=.882, h7_2=.843, h11_10=.756,
            h9_9=.659, h9_6=.630, h10_1=.612, h5_0=.595),
    _scored(GPT2, "previous token", SONG, h4_11=.989, h5_6=.822, h6_8=.727, h7_0=.583, h3_7=.555, h3_3=.515, h2_2=.512),
    _scored(("gpt2-xl",), "induction", SONG, h17_6=.987, h16_3=.985, h16_21=.980, h18_0=.980, h22_20=.943, h21_20=.791),
    _scored(("gpt2-xl",), "previous token", SONG, h15_19=.995),
    _scored(("llama-2-7b", "llama-2-7b-hf"), "induction", SONG, h11_15=.926, h8_26=.925, h6_9=.868),
    _scored(("llama-2-7b", "llama-2-7b-hf"), "previous token", SONG, h5_15=.941),
    _scored(("meta-llama-3-8b", "llama-3-8b"), "induction", SONG, h15_30=.955),
    _scored(("meta-llama-3-8b", "llama-3-8b"), "previous token", SONG, h14_26=.859),
    _scored(("mistral-7b-v0.1",), "induction", SONG, h12_7=.969, h12_6=.965, h18_0=.933),
    _scored(("mistral-7b-v0.1",), "previous token", SONG, h11_17=.930),
    _scored(("gemma-7b",), "induction", SONG, h20_13=.935),
    _scored(("gemma-7b",), "previous token", SONG, h0_7=.999),
    _scored(("falcon-7b",), "induction", SONG, h5_41=.989),
    _scored(("falcon-7b",), "previous token", SONG, h1_34=.967),
    _scored(("olmo-1.7-7b", "olmo-1.7-7b-hf"), "induction", SONG, h27_14=.948),
    _scored(("olmo-1.7-7b", "olmo-1.7-7b-hf"), "previous token", SONG, h26_25=.824),
    _scored(("pythia-6.9b",), "induction", SONG, h7_1=.983),
    _scored(("pythia-6.9b",), "previous token", SONG, h6_9=.893),
    _scored(("llama-2-70b", "llama-2-70b-hf"), "induction", SONG, h44_63=.871),
    _scored(("llama-2-70b", "llama-2-70b-hf"), "previous token", SONG, h43_24=.880),
    _scored(("llama-2-7b-80k",), "retrieval", WU, h16_19=.943, h11_15=.920, h8_26=.800, h6_9=.618, h7_12=.614,
            h17_22=.557),
    _scored(("llama-2-13b-64k",), "retrieval", WU, h13_23=.905, h9_33=.871, h21_5=.650),
    _scored(("mistral-7b-instruct-v0.2", "mistral-7b-v0.2"), "retrieval", WU, h18_0=.943, h12_7=.928, h12_6=.774),
    _scored(("mixtral-8x7b-v0.1", "mixtral-8x7b"), "retrieval", WU, h12_7=.945, h18_0=.926, h18_2=.923),
    _scored(("yi-6b-200k",), "retrieval", WU, h17_2=.778, h14_9=.760, h17_6=.756),
    _scored(("qwen1.5-14b",), "retrieval", WU, h12_2=1.003, h14_12=1.0, h23_16=.923),
    _scored(("qwen1.5-14b-chat",), "retrieval", WU, h14_12=.525),
    *(
        _Claim(("bert-base-uncased",), f"syntax: {relation}", (head,),
              "Clark et al. 2019, the output kept in Syntax_Analysis.ipynb", {head: right},
              note=f"best fixed offset {baseline}; Stanford relations")
        for relation, head, right, baseline in (
            ("det up", "8.11", .943, .517), ("dobj down", "8.10", .868, .400), ("pobj up", "9.6", .763, .346),
            ("poss up", "7.6", .805, .477), ("aux up", "4.10", .811, .715), ("nsubj up", "8.2", .585, .455),
        )
    ),
)  # fmt: skip


def claims_about(model: str) -> list[_Claim]:
    """The claims about a model of this name; its owner and letter case do not matter."""
    name = model.rstrip("/").rpartition("/")[2].lower()
    return [claim for claim in CLAIMS if name in claim.models]


def unchecked_claims(model: str, why: str) -> list[ClaimCheck]:
    """Every published head of a model that was not tested, with the reason why not."""
    return [
        ClaimCheck(claim, head, "not tested", None, None, why) for claim in claims_about(model) for head in claim.heads
    ]


def models_with_claims() -> list[str]:
    """The models with published claims, each by its first name."""
    return list(dict.fromkeys(claim.models[0] for claim in CLAIMS))


def check_claims(report: Report) -> list[ClaimCheck]:
    """Compare every published head of this model with the report."""
    trials = {trial.role: trial for trial in report.trials}
    return [_check(claim, head, trials.get(claim.role)) for claim in claims_about(report.model) for head in claim.heads]


def _check(claim: _Claim, head: str, trial: Trial | None) -> ClaimCheck:
    if trial is None:
        return ClaimCheck(claim, head, "not tested", None, None, claim.note or "the battery has no such role")
    if not trial.tested:
        return ClaimCheck(claim, head, "not tested", None, None, trial.why_not)
    name = next((known for known in trial.scores if known == head or known.endswith(f".{head}")), None)
    score = None if name is None else trial.scores[name]
    if name is None or score is None:
        return ClaimCheck(claim, head, "not tested", None, None, f"this model has no head {head} of that kind")
    rank = 1 + sum(other > score for other in trial.scores.values() if other is not None)
    if name in trial.named:
        return ClaimCheck(claim, head, "agrees", score, rank, "")
    rival = trial.rivals.get(name) or 0.0
    return ClaimCheck(claim, head, "differs", score, rank, f"its strongest rival answer has {rival:.2f}")
