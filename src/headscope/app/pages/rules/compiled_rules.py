"""Write a rule, get a head: a rule compiled into W_Q, W_K, W_V and W_O, its pattern, and its model to open."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from headscope.app.pages.four_heads import MadeModels, OpenedModel
from headscope.app.pages.schema import Request, Response
from headscope.app.wire import Arrays, numbers
from headscope.errors import InputError
from headscope.heads.questions.token_features import TokenFeatures
from headscope.heads.rules.library import built_in
from headscope.heads.rules.rule import Targeted
from headscope.lab.compile import Compiled, CompileOptions, compile_program, program_of_rule
from headscope.lab.compile.programs import SELECTORS
from headscope.lab.compile.words import sample_texts
from headscope.models.native import NativeModel
from headscope.models.protocol import Token
from headscope.scope import Scope

TEXT = (
    " Anna slowly sees the green horse, and the river. Boris ( cold bread) runs.\n"
    " Anna slowly sees the 2 lamp, and the river sings"
)
SIDE = 40  # cells of a drawn matrix: each is the largest weight of its part, with its sign
SAMPLES, LENGTH = 12, 100  # texts that the rules of an opened model are fitted on
KEPT = 16


class CompilableRule(Response):
    """A rule that a head can be compiled from."""

    name: str
    phrase: str


class CompilableRules(Response):
    """All of them."""

    rules: list[CompilableRule]
    text: str


class CompileRequest(Request):
    """A rule to compile. ``hidden``: in a rotated, noisy residual stream, beside two decoys in every layer."""

    rule: str = Field(min_length=1, max_length=120)
    hidden: bool = False


class CompiledHead(Response):
    """One compiled head.

    Arrays: ``pattern`` float32 [query, key]; ``W_Q``, ``W_K``, ``W_V``, ``W_O`` float32, reduced to at most 40 × 40
    cells, each the weight of its part that is largest in absolute value.
    """

    rule: str
    phrase: str
    head: str
    heads: int
    layers: int
    d_model: int
    d_head: int
    tokens: list[str]
    share: float = Field(description="of the attention that lands where the rule says, over rows with a target")


def compilable() -> CompilableRules:
    """Every rule that can be compiled."""
    phrases = _phrases()
    return CompilableRules(rules=[CompilableRule(name=name, phrase=phrases[name]) for name in SELECTORS], text=TEXT)


def compiled_head(asked: CompileRequest) -> tuple[CompiledHead, Arrays]:
    """Compile a rule and read the example with it."""
    rule = find_rule(asked.rule)
    compiled = _compiled(rule, asked.hidden)
    site, head = _place(compiled, rule)
    with Scope(NativeModel(compiled.model, compiled.tokenizer, "compiled")) as scope:
        look = scope.look(TEXT)
        pattern, tokens = look.pattern(f"{site}.{head}"), [token.text for token in look.tokens]
        wanted = _wanted(rule, look.tokens)
    applies = wanted.sum(-1) > 0
    share = float(torch.minimum(pattern, wanted)[applies].sum() / applies.sum().clamp_min(1))
    attention = compiled.model.attention(int(site))
    rows = slice(head * attention.d_head, (head + 1) * attention.d_head)
    matrices = {
        "W_Q": attention.q_proj.weight[rows].T,
        "W_K": attention.k_proj.weight[rows].T,
        "W_V": attention.v_proj.weight[rows].T,
        "W_O": attention.o_proj.weight[:, rows].T,
    }
    config = compiled.model.config
    found = CompiledHead(
        rule=rule,
        phrase=_phrases()[rule],
        head=f"{site}.{head}",
        heads=config.n_heads,
        layers=config.n_layers,
        d_model=config.d_model,
        d_head=attention.d_head,
        tokens=tokens,
        share=share,
    )
    small = {name: numbers(_reduced(matrix)) for name, matrix in matrices.items()}
    return found, {"pattern": numbers(pattern), **small}


def open_compiled(asked: CompileRequest, made: MadeModels) -> OpenedModel:
    """Add the compiled model to a client's models; its rules can be fitted there, and should be the one asked for."""
    rule = find_rule(asked.rule)
    compiled = _compiled(rule, asked.hidden)
    name = f"rule-{rule.replace(',', '').replace(' ', '-')}{'-hidden' if asked.hidden else ''}"
    opened = made.open(name, compiled.model, compiled.tokenizer, TEXT, sample_texts(SAMPLES, LENGTH))
    site, head = _place(compiled, rule)
    return opened.model_copy(update={"head": f"{site}.{head}"})


def find_rule(written: str) -> str:
    """The rule that is meant, by its name or by how it is said."""
    phrases = _phrases()
    said = {phrases[name].casefold(): name for name in SELECTORS} | {name.casefold(): name for name in SELECTORS}
    wanted = " ".join(written.casefold().split())
    if wanted in said:
        return said[wanted]
    near = [said[each] for each in get_close_matches(wanted, said, n=4, cutoff=0.4)]
    meant = f"did you mean {', '.join(dict.fromkeys(near))}?" if near else f"there are {', '.join(SELECTORS)}"
    raise InputError(f"no head can be compiled from {written!r}; {meant}")


@lru_cache(maxsize=1)
def _phrases() -> dict[str, str]:
    return {rule.name: rule.phrase for rule in built_in()}


@lru_cache(maxsize=KEPT)
def _compiled(rule: str, hidden: bool) -> Compiled:
    options = CompileOptions() if hidden else CompileOptions(decoys=0, rotate=False, noise=0.0)
    return compile_program(program_of_rule(rule), options)


def _place(compiled: Compiled, rule: str) -> tuple[str, int]:
    """Where the head with the rule is: the last of that name, as others may only prepare its notes."""
    name = [head for head, job in compiled.truth.items() if job == rule][-1]
    site, _, head = name.rpartition(".")
    return site, int(head)


def _wanted(rule: str, tokens: Sequence[Token]) -> Float[Tensor, "query key"]:
    known = next(each for each in built_in() if each.name == rule)
    rows = torch.arange(len(tokens))
    visible = torch.ones(len(tokens), len(tokens), dtype=torch.bool).tril()
    return Targeted([known], TokenFeatures.of(tokens), "cpu").block(rows, visible)[0]


def _reduced(matrix: Float[Tensor, "row column"]) -> Float[Tensor, "cell side"]:
    """The largest weight of each part of a matrix, by absolute value, with its sign."""
    shape = tuple(min(SIDE, size) for size in matrix.shape)
    high, low = (torch.nn.functional.adaptive_max_pool2d(sign * matrix[None], shape)[0] for sign in (1, -1))
    return torch.where(high >= low, high, -low)
