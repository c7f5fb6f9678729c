"""Compile a program into a model: heads with known jobs among decoys, in a rotated and noisy residual stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor

from headscope.lab.compile.programs import Program
from headscope.lab.compile.selectors import N_WORDS, QueryKey, ResidualLayout, Selector, offset
from headscope.lab.compile.words import word_tokenizer
from headscope.lab.teach.tiny_transformer import TinyConfig, TinyTransformer

LOGIT_GAP = 10.0


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """How a program is hidden in a model."""

    context: int = 128
    decoys: int = 2
    """Heads with random weights in every layer."""
    decoy_sharpness: float = 1.5
    """Standard deviation of a decoy's scores, in nats."""
    rotate: bool = True
    noise: float = 0.03
    """Length of a random vector added to the embedding of every token and position, which have length 1."""
    seed: int = 0


@dataclass(frozen=True)
class Compiled:
    """A model, its tokenizer, and the truth about its heads: the rule of each, None for a decoy."""

    program: Program
    model: TinyTransformer
    tokenizer: Tokenizer
    truth: dict[str, str | None]


@dataclass(frozen=True)
class _Job:
    selector: Selector
    writes: slice


@torch.no_grad()
def compile_program(program: Program, options: CompileOptions | None = None) -> Compiled:
    """Make the model of a program. ``headscope.load(compiled.model, compiled.tokenizer)`` opens it."""
    options = options or CompileOptions()
    layout = ResidualLayout(options.context)
    layers = _layers(program.selectors, layout)
    n_heads = max(map(len, layers)) + options.decoys
    model = _empty(layout, len(layers), n_heads)
    generator = torch.Generator().manual_seed(options.seed)
    truth: dict[str, str | None] = {}
    for layer, jobs in enumerate(layers):
        order = torch.randperm(n_heads, generator=generator).tolist()
        for place, head in enumerate(order):
            job = jobs[place] if place < len(jobs) else None
            truth[f"{layer}.{head}"] = None if job is None else job.selector.rule
            if job is None:
                made = _decoy(layout, options, generator)
            else:
                made = job.selector.make(layout), layout.read(layout.token), layout.write(job.writes)
            _set_head(model, layer, head, made)
    _hide(model, options, generator)
    ordered = {head: truth[head] for head in sorted(truth)}
    return Compiled(program, model.eval(), word_tokenizer(), ordered)


def _layers(selectors: Sequence[Selector], layout: ResidualLayout) -> list[list[_Job]]:
    """The heads of each layer: those that read notes come second, after those that write them."""
    late = [each for each in selectors if each.needs]
    early = [each for each in selectors if each not in late]
    notes = sorted({step for each in late for step in each.needs})
    names = {1: "previous token", 2: "2 back"}
    first = [_Job(offset(names[step], step), layout.note(step - 1)) for step in notes]
    first += [_Job(each, layout.answer) for each in early]
    second = [_Job(each, layout.answer) for each in late]
    return [first, second] if second else [first]


def _empty(layout: ResidualLayout, n_layers: int, n_heads: int) -> TinyTransformer:
    """All weights zero but embeddings and the unembedding of the answer."""
    config = TinyConfig(
        vocabulary=N_WORDS, context=layout.context, d_model=layout.d_model, n_layers=n_layers, n_heads=n_heads,
        d_head=layout.d_head,
    )  # fmt: skip
    model = TinyTransformer(config)
    for weight in model.parameters():
        weight.requires_grad_(False).zero_()
    model.embedding.weight[:, layout.token] = torch.eye(N_WORDS)
    model.positions.weight[:, layout.position] = torch.eye(layout.context)
    model.positions.weight[:, layout.one] = 1.0
    model.unembedding.weight[:, layout.answer] = LOGIT_GAP * torch.eye(N_WORDS)
    return model


Matrices = tuple[QueryKey, Tensor, Tensor]
"""W_Q and W_K; W_V ``[d_model, d_head]``; W_O ``[d_head, d_model]``."""


def _decoy(layout: ResidualLayout, options: CompileOptions, generator: torch.Generator) -> Matrices:
    """Random matrices: a head that looks here and there and writes little."""

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    size = layout.d_head**-0.25 * options.decoy_sharpness**0.5 / 3**0.5  # token, position and 1 make a length of √3
    query, key = (draw(layout.d_model, layout.d_head) * size for _ in range(2))
    value = draw(layout.d_model, layout.d_head) * layout.d_model**-0.5
    return QueryKey(query, key), value, draw(layout.d_head, layout.d_model) * 0.02 * layout.d_model**-0.5


def _set_head(model: TinyTransformer, layer: int, head: int, matrices: Matrices) -> None:
    attention = model.attention(layer)
    rows = slice(head * attention.d_head, (head + 1) * attention.d_head)
    pair, value, output = matrices
    attention.q_proj.weight[rows] = pair.query.T * attention.d_head**0.5
    attention.k_proj.weight[rows] = pair.key.T
    attention.v_proj.weight[rows] = value.T
    attention.o_proj.weight[:, rows] = output.T


def _hide(model: TinyTransformer, options: CompileOptions, generator: torch.Generator) -> None:
    """Rotate the residual stream at random, which changes no output, and add noise to the embeddings."""
    d_model = model.config.d_model
    drawn = torch.randn(d_model, d_model, generator=generator)
    turn = torch.linalg.qr(drawn).Q if options.rotate else torch.eye(d_model)
    for table in (model.embedding, model.positions):
        noise = torch.randn(table.weight.shape, generator=generator) * options.noise * d_model**-0.5
        table.weight.copy_(table.weight @ turn + noise)
    model.unembedding.weight.copy_(model.unembedding.weight @ turn)
    for layer in range(model.config.n_layers):
        attention = model.attention(layer)
        for reader in (attention.q_proj, attention.k_proj, attention.v_proj):
            reader.weight.copy_(reader.weight @ turn)
        attention.o_proj.weight.copy_(turn.T @ attention.o_proj.weight)
