"""Every head in words, for the page: sentences, rule patterns beside patterns, and what running on rules costs.

Rules of the embedded model ship with it; those of another model are fitted when somebody asks, once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from headscope.app.lru import LRU
from headscope.app.pages.kept_looks import Opened
from headscope.app.pages.rules.shipped import shipped_rules, texts_for
from headscope.app.pages.schema import LookName, PartName, Request, Response
from headscope.app.wire import Arrays, numbers
from headscope.errors import InputError, ModelError
from headscope.heads.explain.qk_ov_circuits import Circuit, token_directions
from headscope.heads.look.look import Look
from headscope.heads.questions.token_features import TokenFeatures
from headscope.heads.rules.cost import loss_with
from headscope.heads.rules.fit_heads import HeadFit
from headscope.heads.rules.follow import Follow, follow
from headscope.heads.rules.mixture import Drawn, rules_used
from headscope.heads.rules.report import HeadRules, Measure, Rules
from headscope.heads.rules.sentence import legible, legible_example, on_content
from headscope.models.protocol import OpenModel
from headscope.names import Head
from headscope.scope import Scope

LONGEST = 512  # tokens of a text whose rule pattern is sent
COST_TEXTS = 3
KEPT_COSTS = 512
CIRCUITS: tuple[Circuit, ...] = ("QK", "OV")
SHOWN_HOW = ("rules", "position", "mean")


class MeasureInfo(Response):
    """A measure over all reporting texts, and its 95 % interval over documents."""

    value: float
    low: float
    high: float


class RuleInfo(Response):
    """One rule of a head. ``part``: what it explains of the head's attention beside the first token."""

    name: str
    phrase: str
    weight: float
    applies: float = Field(description="the share of places where it has a target")
    part: float
    position: bool = Field(description="whether it reads positions alone")


class ExampleInfo(Response):
    """Two tokens, the weight that the first gives the second, and the weight by the head's rules."""

    query: str
    key: str
    weight: float
    by_rules: float


class DirectionInfo(Response):
    """Tokens at the two ends of a circuit's strongest direction, and its share of the circuit."""

    circuit: Literal["QK", "OV"]
    share: float
    given: list[str] = Field(description="QK: tokens that ask; OV: tokens that are read")
    raised: list[str] = Field(description="QK: tokens that are asked for; OV: predictions that are raised")


class HeadWords(Response):
    """One head in words, and what the words explain."""

    head: str
    sentence: str
    first: float
    rules: list[RuleInfo]
    explained: MeasureInfo
    explained_by_position: MeasureInfo
    rest: MeasureInfo
    rest_by_position: MeasureInfo
    gain: MeasureInfo
    null_gain: MeasureInfo
    strongest: str | None
    on_content: float = Field(description="what short context explains of the rest beyond the rules")
    example: ExampleInfo | None = Field(default=None, description="where it attends most beyond its rules")


class RulesResponse(Response):
    """The rules of this model's heads, as far as they have been fitted."""

    state: Literal["unfitted", "fitting", "fitted"]
    heads: list[HeadWords] = []
    places: int = Field(default=0, description="rows that the measures are over")
    texts: int = Field(default=0, description="texts that the measures are over")


class RulePatternRequest(Request):
    """The pattern that a head's rules give on a text."""

    look: LookName
    head: PartName


class RulePatternResponse(Response):
    """Arrays: ``weights`` float32 [query, key]."""

    look: str
    head: str


class RuleCostRequest(Request):
    """What it costs to let one head run on its rules."""

    head: PartName


class RuleCostResponse(Response):
    """By what factor the perplexity grows with a head on its rules, on position alone, and on its mean z."""

    head: str
    texts: int
    loss: float
    perplexity: dict[str, float]
    directions: list[DirectionInfo] = Field(default=[], description="what it depends on by content, from its weights")


class HeadsInWords:
    """The rules of one session's model."""

    def __init__(self, scope: Scope, open_look: Callable[[str], Opened], texts: Sequence[Any] | None = None) -> None:
        self.scope, self._open, self._texts = scope, open_look, texts
        self._found: Rules | None = None
        self._fitting = False
        self._kept: dict[Head, HeadFit] = {}  # heads that were fitted before somebody stopped
        self._costs: LRU[Head, RuleCostResponse] = LRU(KEPT_COSTS)

    def state(self) -> RulesResponse:
        """The rules, if they are there. Returns at once."""
        rules = self._rules
        if rules is None:
            return RulesResponse(state="fitting" if self._fitting else "unfitted")
        recipe = rules.recipe
        return RulesResponse(
            state="fitted",
            heads=[_words(head) for head in rules],
            places=recipe["places"],
            texts=recipe["documents"]["report"],
        )

    def fit(self) -> RulesResponse:
        """Fit the rules of every head, once per model."""
        if self._rules is None:
            self._fitting = True
            try:
                self._found = self.scope.rules(self.texts, kept=self._kept)
            finally:
                self._fitting = False
        return self.state()

    def pattern(self, asked: RulePatternRequest) -> tuple[RulePatternResponse, Arrays]:
        """What a head's rules say of a text: as many rows and columns as its pattern has."""
        rules, look = self.fitted(), self._open(asked.look).look
        head = rules[asked.head].head
        if len(look.tokens) > LONGEST:
            raise InputError(
                f"this text has {len(look.tokens)} tokens; the rule's pattern is drawn for texts of up to {LONGEST}"
            )
        return RulePatternResponse(look=asked.look, head=str(head)), {
            "weights": numbers(rule_pattern(rules, head, look))
        }

    def cost(self, asked: RuleCostRequest) -> RuleCostResponse:
        """The loss on a few texts with this head replaced, in each way."""
        rules = self.fitted()
        return self._costs.cached(rules[asked.head].head, lambda: self._cost(rules, rules[asked.head].head))

    def follow(self, heads: Sequence[str]) -> Follow:
        """The edit that lets these heads run on their rules."""
        return follow(self.fitted(), list(dict.fromkeys(heads)))

    def fitted(self) -> Rules:
        """The rules, or an error where there are none yet."""
        if self._rules is None:
            raise InputError("this model's rules have not been fitted yet; press “Say it in words” first")
        return self._rules

    @property
    def texts(self) -> Sequence[Any]:
        """What the rules are fitted and measured on."""
        return self._texts if self._texts is not None else texts_for(self.scope)

    @property
    def _rules(self) -> Rules | None:
        return self._found or self._shipped

    @cached_property
    def _shipped(self) -> Rules | None:
        return shipped_rules(self.scope)

    @cached_property
    def _tokens(self) -> list[int]:
        """Every token of the texts, once, but for parts of characters."""
        tokens = {token.id: token.text for text in self.texts for token in self.scope.model.prepare(text).tokens}
        return sorted(number for number, text in tokens.items() if "\ufffd" not in text)

    def _cost(self, rules: Rules, head: Head) -> RuleCostResponse:
        texts = self.texts[2::3][:COST_TEXTS]  # of those that the measures are over
        base, found = loss_with(rules, texts, [head], SHOWN_HOW)
        factors = {how: math.exp(loss - base) for how, loss in found.items()}
        return RuleCostResponse(
            head=str(head),
            texts=len(texts),
            loss=base,
            perplexity=factors,
            directions=_directions(self.scope.model, head, self._tokens),
        )


def rule_pattern(rules: Rules, head: Head, look: Look) -> Float[Tensor, "query key"]:
    """The pattern that a head's mixture of rules gives on the text of a look."""
    mixture, tokens, source = rules.mixture(head), look.query_tokens(head.site), look.source(head)
    rows = torch.arange(len(tokens), device=source.q.device)
    visible = source.scores.mask.block(rows, rows, 0)[0, 0].expand(len(tokens), -1)
    return Drawn(rules_used([mixture], rules.known()), TokenFeatures.of(tokens), rows, visible).mixture(mixture)


def _words(head: HeadRules) -> HeadWords:
    measures = ("explained", "explained_by_position", "rest", "rest_by_position", "gain", "null_gain")
    shown = legible_example(head)
    return HeadWords(
        head=str(head.head),
        sentence=head.sentence,
        first=head.first,
        rules=[RuleInfo(**vars(part)) for part in head.rules],
        strongest=head.strongest,
        on_content=round(on_content(head), 4),
        example=None if shown is None else ExampleInfo(**shown),
        **{name: _measure(getattr(head, name)) for name in measures},
    )


def _directions(model: OpenModel, head: Head, among: Sequence[int]) -> list[DirectionInfo]:
    """The strongest direction of each circuit; none where a model has no embedding or unembedding of tokens."""
    try:
        found = [each for circuit in CIRCUITS for each in token_directions(model, head, circuit, 1, among)]
    except ModelError:
        return []
    tokens_of = model.processor.tokens_of
    return [
        DirectionInfo(
            circuit=each.circuit,
            share=round(each.share, 4),
            given=[legible(token.text) for token in tokens_of(torch.tensor(each.given))],
            raised=[legible(token.text) for token in tokens_of(torch.tensor(each.raised))],
        )
        for each in found
    ]


def _measure(measure: Measure) -> MeasureInfo:
    return MeasureInfo(value=measure.value, low=measure.low, high=measure.high)
