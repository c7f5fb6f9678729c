"""Every head in words: what ``scope.rules`` returns, its table, and its file."""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headscope.errors import HeadNameError, InputError
from headscope.files import parsing, write_atomic
from headscope.heads.rules.class_table import ClassTable
from headscope.heads.rules.library import built_in
from headscope.heads.rules.mixture import ONLY_FIRST, Mixture
from headscope.heads.rules.rule import FIRST_TOKEN, Rule
from headscope.heads.rules.sentence import legible_example, on_content, sentence
from headscope.models.protocol import OpenModel
from headscope.models.weight_hash import weight_hash
from headscope.names import Head, HeadName

if TYPE_CHECKING:
    import pyarrow as pa

    from headscope.heads.rules.cost import Cost, CostOptions

SCHEMA_VERSION = 2


@dataclass(frozen=True)
class Measure:
    """A value over all reporting texts, its 95 % interval over documents, and the value in each document."""

    value: float
    low: float
    high: float
    documents: tuple[float, ...] = ()


@dataclass(frozen=True)
class RulePart:
    """One rule of a mixture: its weight where it applies, at which share of places it does, its part of the rest."""

    name: str
    phrase: str
    weight: float
    applies: float
    part: float
    position: bool


@dataclass(frozen=True)
class Example:
    """Two tokens of a reporting text: the weight that one gives the other, and the weight by the head's rules."""

    query: str
    key: str
    weight: float
    by_rules: float

    @property
    def tokens(self) -> tuple[str, str]:
        return self.query, self.key


@dataclass(frozen=True)
class Learned:
    """A mixture that may use what is learned from the head, and what it explains.

    That is a class table, or its pattern in short context. Position alone had as many rules as this mixture may have.
    """

    mixture: Mixture
    explained: Measure
    explained_by_position: Measure
    rest: Measure
    gain: Measure


@dataclass(frozen=True)
class HeadRules:
    """One head: the mass on the first token, its rules, and what they explain beside position alone and a null."""

    head: Head
    first: float
    rules: tuple[RulePart, ...]
    """Heaviest first: the first rule is the one that a query with a target follows most."""
    position: tuple[tuple[str, float], ...]
    """The best mixture of position alone with as many rules."""
    explained: Measure
    """S = 1 − total variation. Flatters heads that rest on the first token."""
    explained_by_position: Measure
    rest: Measure
    """The share of the rest: first key removed, renormalised, weighted by the mass that remains."""
    rest_by_position: Measure
    gain: Measure
    """(S − S₀) / (1 − S₀), S₀ for position alone."""
    null_gain: Measure
    """The gain of rules fitted with the labels of shuffled tokens."""
    alone: float
    """In rows with a target, the share of attention that the first rule alone explains, beyond equal weights."""
    with_table: Learned
    """May use a class table."""
    in_context: Learned
    """May use the pattern in short context, too."""
    examples: tuple[Example, ...] = ()
    """Where it attends most beyond what its rules say, strongest first."""
    mean_z: tuple[float, ...] = ()
    """Its mean z over the rows of the fit. A model on rules has it in place of what they do not explain."""

    @property
    def sentence(self) -> str:
        return sentence(self)

    @property
    def mixture(self) -> Mixture:
        return Mixture(tuple(part.name for part in self.rules), tuple(part.weight for part in self.rules))

    @property
    def position_mixture(self) -> Mixture:
        return Mixture(tuple(name for name, _ in self.position), tuple(weight for _, weight in self.position))

    @property
    def above_null(self) -> bool:
        """Whether its rules that read tokens explain clearly more than position alone and than shuffled labels do.

        Clearly, because heads with random weights prefer some tokens by chance, and some class of tokens fits them.
        """
        return self.gain.low > max(0.0, self.null_gain.high) + MARGIN

    @property
    def named(self) -> str | None:
        """The first rule, where the evidence for it is strong: alone it explains much, and more than its null."""
        first = self.rules[0]
        if self.alone < NAMED_FROM or not (first.position or self.above_null):
            return None
        return first.name

    @property
    def strongest(self) -> str | None:
        """The rule beside the first token with the largest part of the rest."""
        others = [part for part in self.rules if part.name != FIRST_TOKEN and part.part > 0]
        return max(others, key=lambda part: part.part).name if others else None

    def to_dict(self) -> dict[str, Any]:
        written = asdict(self) | {"head": str(self.head), "sentence": self.sentence, "named": self.named}
        written |= {"strongest": self.strongest, "above_null": self.above_null}
        written |= {"on_content": round(on_content(self), 4), "example": legible_example(self)}
        written["position"] = [{"name": name, "weight": weight} for name, weight in self.position]
        for name in _LEARNED:
            table = getattr(self, name).mixture.table
            written[name]["mixture"]["table"] = None if table is None else table.to_dict()
        return written

    @classmethod
    def from_dict(cls, written: dict[str, Any]) -> HeadRules:
        measures: dict[str, Any] = {name: _measure(written[name]) for name in _MEASURES}
        for name in _LEARNED:  # version 1 has tables only
            measures[name] = _learned(written.get(name, written["with_table"]))
        return cls(
            head=Head.parse(written["head"]), first=written["first"], alone=written["alone"],
            rules=tuple(RulePart(**part) for part in written["rules"]),
            position=tuple((part["name"], part["weight"]) for part in written["position"]),
            examples=tuple(Example(**example) for example in written.get("examples", ())),
            mean_z=tuple(written.get("mean_z", ())),
            **measures,
        )  # fmt: skip


MARGIN = 0.08
"""By how much the lower end of a gain has to exceed its null: decoys of compiled models reach .066."""
NAMED_FROM = 0.3
"""What the first rule has to explain alone, beyond equal weights on all keys, for a head to be named by it."""


def _measure(written: dict[str, Any]) -> Measure:
    return Measure(written["value"], written["low"], written["high"], tuple(written["documents"]))


def _learned(written: dict[str, Any]) -> Learned:
    mixture = written["mixture"]
    table = None if mixture["table"] is None else ClassTable.from_dict(mixture["table"])
    return Learned(
        Mixture(tuple(mixture["rules"]), tuple(mixture["weights"]), table),
        **{name: _measure(written[name]) for name in ("explained", "explained_by_position", "rest", "gain")},
    )


@dataclass(frozen=True)
class Rules:
    """Every head in words; ``rules["5.6"]`` is one head. ``headscope.follow(rules)`` lets the model run on them."""

    model: str
    heads: tuple[HeadRules, ...]
    recipe: dict[str, Any]
    own: tuple[Rule, ...] = field(default=(), compare=False)
    """Rules of the user's own; they are not written into files."""
    opened: OpenModel | None = field(default=None, compare=False, repr=False)
    """The model that the rules were fitted on, where it is open."""

    def cost(
        self, texts: Sequence[Any], options: CostOptions | None = None, kept: MutableMapping[str, float] | None = None
    ) -> Cost:
        """What running on rules costs: perplexity with some heads replaced, beside position alone and mean ablation.

        Losses go into ``kept`` as they are measured, and the same call goes on from those that are there.
        """
        from headscope.heads.progress_bar import progress_bar
        from headscope.heads.rules.cost import measure_cost

        with progress_bar("running on rules"):
            return measure_cost(self, texts, options, kept)

    def mixture(self, head: HeadName, how: str = "rules") -> Mixture:
        """A mixture: ``rules``, with a class ``table``, in short ``context``, of ``position``, or ``first`` (token)."""
        found = self[head]
        mixtures = {
            "rules": found.mixture, "table": found.with_table.mixture, "context": found.in_context.mixture,
            "position": found.position_mixture,
            "first": ONLY_FIRST,
        }  # fmt: skip
        if how not in mixtures:
            raise InputError(f"how={how!r}: heads run on {', '.join(map(repr, mixtures))}")
        return mixtures[how]

    def explained(self, head: HeadName, how: str = "rules") -> float:
        """The share that one of these mixtures explains of a head."""
        found = self[head]
        return {
            "rules": found.explained.value, "table": found.with_table.explained.value,
            "context": found.in_context.explained.value, "position": found.explained_by_position.value,
            "first": found.first,
        }[how]  # fmt: skip

    def known(self) -> dict[str, Rule]:
        """All rules by name: the built-in ones, and the user's own that were given."""
        return {rule.name: rule for rule in (*built_in(causal=False), *self.own)}

    def __getitem__(self, head: HeadName) -> HeadRules:
        wanted = Head.parse(head)
        for each in self.heads:
            if each.head == wanted:
                return each
        raise HeadNameError(f"{wanted}: rules were fitted for {', '.join(str(each.head) for each in self.heads)}")

    def __iter__(self) -> Iterator[HeadRules]:
        return iter(self.heads)

    def __len__(self) -> int:
        return len(self.heads)

    def means(self) -> dict[str, float]:
        """Means over heads of every measure, beside position alone and the null."""
        rows = [arrow_row(head) for head in self.heads]
        return {name: round(sum(row[name] for row in rows) / max(len(rows), 1), 4) for name in ("first", *_MEANS)}

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION, "model": self.model, "recipe": self.recipe, "means": self.means(),
            "heads": [head.to_dict() for head in self.heads],
        }  # fmt: skip

    @classmethod
    def from_dict(cls, written: dict[str, Any], own: Sequence[Rule] = (), opened: OpenModel | None = None) -> Rules:
        if written.get("schema_version") not in (1, SCHEMA_VERSION):
            raise InputError(
                f"these rules have schema_version {written.get('schema_version')}; this program reads 1 and "
                f"{SCHEMA_VERSION}"
            )
        heads = tuple(HeadRules.from_dict(head) for head in written["heads"])
        return cls(written["model"], heads, written["recipe"], tuple(own), opened)

    def to_arrow(self) -> pa.Table:
        """One row per head."""
        import pyarrow as pa

        return pa.Table.from_pylist([arrow_row(head) for head in self.heads])

    def save(self, path: str | Path) -> None:
        """Write one JSON file; it holds the hash of the model's weights."""
        write_atomic(Path(path), (json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n").encode())

    def __repr__(self) -> str:
        means = self.means()
        return (
            f"Rules({self.model}: {len(self.heads)} heads, gain over position {means['gain']:.3f} "
            f"(with class tables {means['gain_with_table']:.3f}, in short context "
            f"{means['gain_in_context']:.3f}, null {means['null_gain']:.3f}), share of the rest {means['rest']:.3f} "
            f"(in short context {means['rest_in_context']:.3f}))"
        )


_MEASURES = ("explained", "explained_by_position", "rest", "rest_by_position", "gain", "null_gain")
_LEARNED = ("with_table", "in_context")
_MEANS = (*_MEASURES, *(f"{name}_{kind}" for kind in _LEARNED for name in ("explained", "rest", "gain")))


def arrow_row(head: HeadRules) -> dict[str, Any]:
    """One head as a flat row: its sentence, its rules and every measure with its interval."""
    row: dict[str, Any] = {"head": str(head.head), "sentence": head.sentence, "named": head.named, "first": head.first}
    row |= {"rules": [part.name for part in head.rules], "weights": [part.weight for part in head.rules]}
    for name in _MEASURES:
        measure: Measure = getattr(head, name)
        row |= {name: measure.value, f"{name}_low": measure.low, f"{name}_high": measure.high}
    for kind in _LEARNED:
        learned: Learned = getattr(head, kind)
        row |= {f"{name}_{kind}": getattr(learned, name).value for name in ("explained", "rest", "gain")}
    return row


def open_rules(path: str | Path, model: OpenModel | None = None, own: Sequence[Rule] = ()) -> Rules:
    """Open rules that ``rules.save`` wrote. With a model, its weights have to be those that were fitted."""
    with parsing(str(path), "fit the rules again"):
        rules = Rules.from_dict(json.loads(Path(path).read_text(encoding="utf-8")), own, model)
    if model is not None and rules.recipe["weights"] != weight_hash(model.model):
        raise InputError(f"{path} was fitted on {rules.model} with other weights than this model's; fit it again")
    return rules
