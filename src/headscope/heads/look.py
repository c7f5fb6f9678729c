"""One text under the microscope: one observed pass, and every head's pattern on demand, never all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention import rectangles
from headscope.attention.engine import observe
from headscope.attention.observation import Rows
from headscope.attention.observer import Call, plain
from headscope.attention.questions import Question
from headscope.attention.scores import Scores
from headscope.errors import InputError
from headscope.heads.contributions import Contributions, Shares, contributions_at, shares_of
from headscope.heads.edits import Bound
from headscope.heads.rules import LabelRule
from headscope.heads.sampling import Prediction, strongest_predictions
from headscope.heads.standard import answerable, standard_questions
from headscope.models.opened import OpenModel, Pass, Prepared, SiteOutput, Token
from headscope.names import Head, ModelShape

BUDGET = 2**30  # bytes of q, k and z that a look keeps; past it they are computed again when asked for
ABOUT_PLACES = ("previous", "itself", "first")
LARGEST_PATTERN = 2**26  # cells of one dense pattern; larger ones are read in rectangles


@dataclass(frozen=True)
class SeenSite:
    """One site of one pass: its statistics by row, and what a pattern is recomputed from while it is kept."""

    rows: Rows
    scores: Scores
    value_norms: Float[Tensor, "kv key"]
    kept: tuple[Tensor, Tensor] | None


class Look:
    """A text, seen. ``look.pattern("3.5")`` is one head's weights; ``look.statistics("3")`` a whole layer's numbers."""

    display: ClassVar[Callable[[Look], Any] | None] = None
    """Filled in by the app: how a notebook shows a look."""

    def __init__(self, model: OpenModel, prepared: Prepared, edits: Sequence[Bound] = (), key: str = "") -> None:
        self.model = model
        self.prepared = prepared
        self.edits = tuple(edits)
        self.key = key
        self._recorded: dict[str, SiteOutput] = {}
        self._sites: dict[str, SeenSite] = {}
        self._asked: dict[tuple[Token, ...], dict[str, Question]] = {}
        self._pass = self._run()

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The text that was read, token by token."""
        return self.prepared.tokens

    @property
    def written(self) -> tuple[Token, ...]:
        """The text whose next token is predicted: of a model that reads one text and writes another, the second."""
        return self.prepared.decoder_tokens or self.prepared.tokens

    def query_tokens(self, site: str) -> tuple[Token, ...]:
        """The text that looks, at this site."""
        beside = self.prepared.stacks.get(site.partition(".")[0])
        text = beside or (self.written if site.startswith("decoder") else self.tokens)
        return text if self._has_length(site, 0, len(text)) else _numbered(self._lengths(site)[0])

    def key_tokens(self, site: str) -> tuple[Token, ...]:
        """The text that is looked at, at this site."""
        text = self.tokens if self.shape.sites[site].kind == "cross" else self.query_tokens(site)
        return text if self._has_length(site, 1, len(text)) else _numbered(self._lengths(site)[1])

    @property
    def shape(self) -> ModelShape:
        """Sites, heads and widths of the model that was looked at."""
        return self.model.shape

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites this text reached, in order."""
        return tuple(self._sites)

    @property
    def logits(self) -> Float[Tensor, "query vocabulary"]:
        """The model's own logits at every position, with this look's edits in force."""
        return self._pass.logits[0]

    def statistics(self, site: str) -> Rows:
        """Entropy, distance, strongest key and the standard questions of every head and row of a site (batch of 1)."""
        return self._site(site).rows

    def mean_answers(self, site: str) -> dict[str, Float[Tensor, " head"]]:
        """Each head's mean mass on every standard question, over the rows that could answer; none if no row could."""
        causal = self.shape.sites[site].causal
        questions = self._asked.get(self.query_tokens(site), {})
        asked = {name: answerable(question, causal)[0] for name, question in questions.items()}
        masses = self.statistics(site).mass
        return {
            name: masses[name][0][:, where.to(masses[name].device)].mean(-1)
            for name, where in asked.items()
            if name in masses and bool(where.any())
        }

    def ask(self, rule: LabelRule) -> dict[Head, float]:
        """A question of one's own: each head's mean mass where labels are equal, over the rows that have an answer."""
        found: dict[Head, float] = {}
        for site in self.sites:
            tokens, source = self.query_tokens(site), self._source(site)
            if self.key_tokens(site) is not tokens or source.k.shape[2] != len(tokens):
                continue
            query, key = (labels[None].to(source.q.device) for labels in rule.labels(tokens))
            question = Question(query, key, rule.exclude_self)
            rows = answerable(question, self.shape.sites[site].causal)[0]
            if bool(rows.any()):
                asked = {rule.name: question}
                seen = observe(source.q, source.k, source.k, scores=source.scores, questions=asked, statistics=set())
                means = seen.mass[rule.name][0][:, rows.to(source.q.device)].mean(-1)
                found |= {Head(site, index): value for index, value in enumerate(means.tolist())}
        return found

    def pattern(self, head: str | Head) -> Float[Tensor, "query key"]:
        """Dense weights of one head."""
        found = self._find(head)
        n_query, n_key = self._lengths(found.site)
        if n_query * n_key > LARGEST_PATTERN:
            raise InputError(
                f"the pattern of {found} has {n_query}×{n_key} cells; read a part of it with weights(head, rows, "
                "columns), or all of it as a picture with pooled(head, (256, 256))"
            )
        return self.weights(found)

    def weights(
        self, head: str | Head, rows: rectangles.Index = slice(None), columns: rectangles.Index = slice(None)
    ) -> Float[Tensor, "query key"]:
        """Any rectangle of one head's pattern, exact."""
        return rectangles.weights(self.source(head), rows, columns)[0, 0]

    def pooled(
        self, head: str | Head, shape: tuple[int, int], rows: slice = slice(None), columns: slice = slice(None)
    ) -> rectangles.Pooled:
        """A rectangle of one head's pattern as a small picture: mean and maximum over blocks."""
        return rectangles.pooled(self.source(head), shape, rows, columns)

    def source(self, head: str | Head) -> rectangles.Source:
        """What one head's pattern is recomputed from, for those who look at it through a measure of their own."""
        found = self._find(head)
        return self._source(found.site).only(found.head)

    def value_norms(self, head: str | Head) -> Float[Tensor, " key"]:
        """How long each key's value is: a weight times this is how much it can carry."""
        found = self._find(head)
        norms = self._site(found.site).value_norms
        return norms[found.head // self.shape.sites[found.site].group_size]

    def delivered(self, site: str) -> Float[Tensor, "head query d_value"]:
        """z: what each head of a site delivered at every position."""
        rows = self._site(site).rows
        return rows.output[0] if rows.output.numel() else self._recall(site)[2][0]

    def contributions(self, position: int | str, sites: Sequence[str] | None = None) -> Contributions:
        """At one position: what each head delivered, its part through W_O, and their sum with the bias."""
        place = self.position(position)
        wanted = [site for site in self.sites if self.query_tokens(site) == self.written] if sites is None else sites
        self._record(wanted)
        return contributions_at(self.model, {site: self._recorded[site] for site in wanted}, place)

    def logit_shares(self, token: str | int, minus: str | int | None = None, position: int | str = -1) -> Shares:
        """One next-token logit, or a difference of two, split over the heads at a position."""
        self._needs_predictions()
        place = self.position(position)
        parts = self.contributions(place)
        residual = self._with_residual()
        ids = [self.token_id(token)] + ([] if minus is None else [self.token_id(minus)])
        return shares_of(self.model, parts, residual[0, place], ids, self.logits[place])

    def predictions(self, position: int | str = -1, count: int = 10) -> list[Prediction]:
        """The likeliest next tokens after a position."""
        self._needs_predictions()
        return strongest_predictions(self.model, self.logits[self.position(position)], count)

    def position(self, position: int | str) -> int:
        """A place in the text: a number (negative from the end), or a token that stands there once."""
        if isinstance(position, str):
            found = [i for i, token in enumerate(self.written) if position in (token.text, token.text.strip())]
            if len(found) != 1:
                where = f"at positions {found}; give one of them" if found else "nowhere in this text"
                raise InputError(f"the token {position!r} stands {where}")
            return found[0]
        length = len(self.written)
        if not -length <= position < length:
            raise InputError(f"position {position}: this text has {length} tokens, 0–{length - 1}")
        return position % length

    def token_id(self, token: str | int) -> int:
        """The id of a token given as text (with its leading space, where it has one) or as an id."""
        if isinstance(token, int):
            return token
        ids = self.model.token_ids(token)
        if len(ids) != 1:
            raise InputError(f"{token!r} is {len(ids)} tokens of this model, not one; give a single token or an id")
        return int(ids[0])

    def _find(self, head: str | Head) -> Head:
        found = self.shape.find(head)
        self._site(found.site)
        return found

    def _site(self, site: str) -> SeenSite:
        if site not in self._sites:
            self.shape.find(Head(site, 0))
            raise InputError(f"this text did not reach the site {site}; it reached {', '.join(self._sites)}")
        return self._sites[site]

    def _has_length(self, site: str, axis: int, length: int) -> bool:
        """Whether these are the tokens of a site: pooled keys, windows and added places are others."""
        return site not in self._sites or self._lengths(site)[axis] == length

    def _lengths(self, site: str) -> tuple[int, int]:
        seen = self._site(site)
        return seen.rows.logsumexp.shape[2], seen.value_norms.shape[1]

    def _questions(self, site: str, call: Call) -> dict[str, Question]:
        """The standard questions, where one text looks at itself; none where the rows are not these tokens."""
        text = self.query_tokens(site)
        if self.key_tokens(site) is not text or not call.q.shape[2] == call.k.shape[2] == len(text):
            return {}
        if text not in self._asked:  # the same labels for every layer: the engine sorts them once
            questions = standard_questions(torch.tensor([[token.id for token in text]], device=call.q.device))
            words = _are_words(text)
            self._asked[text] = {name: q for name, q in questions.items() if words or name in ABOUT_PLACES}
        return self._asked[text]

    def _run(self) -> Pass:
        kept = 0

        def see(site: str, call: Call) -> Tensor:
            nonlocal kept
            seen = observe(call.q, call.k, call.v, scores=call.scores, questions=self._questions(site, call))
            z = self._edited(site, call, seen.output)
            kept += sum(t.numel() * t.element_size() for t in (call.q, call.k, z))
            fits = kept <= BUDGET
            output = z.detach() if fits else z.new_empty(*z.shape[:3], 0)
            rows = Rows(output, seen.logsumexp, seen.entropy, seen.distance, seen.strongest, dict(seen.mass))
            norms = call.v[0].float().norm(dim=-1)
            self._sites[site] = SeenSite(rows, seen.scores, norms, (seen.q, seen.k) if fits else None)
            return z

        with torch.no_grad():
            return self.model.run(self.prepared.inputs, see)

    def _edited(self, site: str, call: Call, z: Tensor) -> Tensor:
        for edit in self.edits:
            z = edit(site, call, z)
        return z

    def _attend(self, site: str, call: Call) -> Tensor:
        return self._edited(site, call, plain(call))

    def _source(self, site: str) -> rectangles.Source:
        seen = self._site(site)
        q, k = seen.kept if seen.kept is not None else self._recall(site)[:2]
        return rectangles.Source(q, k, seen.rows.logsumexp, seen.scores)

    def _recall(self, site: str) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and z of a site that were not kept: the pass again, up to that site and no further."""
        caught: list[tuple[Tensor, Tensor, Tensor]] = []

        def see(name: str, call: Call) -> Tensor:
            z = self._attend(name, call)
            if name == site:
                caught.append((call.q, call.k, z))
                raise _ReachedError
            return z

        with torch.no_grad(), suppress(_ReachedError):
            self.model.run(self.prepared.inputs, see)
        return caught[0]

    def _record(self, sites: Sequence[str]) -> None:
        """Fetch what went into W_O at these sites, and what came out, if it is not there yet."""
        missing = [site for site in sites if site not in self._recorded]
        if missing:
            with torch.no_grad():
                done = self.model.run(self.prepared.inputs, self._attend, outputs=missing, residual=True)
            self._recorded.update(done.outputs)
            self._residual = done.residual

    def _with_residual(self) -> Float[Tensor, "batch query d_model"]:
        residual = getattr(self, "_residual", None)
        if residual is None:
            with torch.no_grad():
                residual = self.model.run(self.prepared.inputs, self._attend, residual=True).residual
        if residual is None:
            raise InputError("this model's final norm was not found, so a logit cannot be split over its heads")
        return residual

    def _needs_predictions(self) -> None:
        if self.shape.vocabulary is None:
            raise InputError(f"{self.shape.name} predicts no tokens: it is an encoder without a language-model head")

    def _repr_mimebundle_(self, **_: Any) -> Any:
        return None if Look.display is None else Look.display(self)

    def __repr__(self) -> str:
        text = ("" if _are_words(self.tokens) else " ").join(token.text for token in self.tokens)
        short = text if len(text) <= 60 else text[:57] + "…"
        return f"Look({short!r}: {len(self.tokens)} tokens, {self.shape.n_heads} heads in {len(self.sites)} sites)"


def _are_words(tokens: Sequence[Token]) -> bool:
    """Tokens of a vocabulary; patches and moments only have a place, and none is another's copy."""
    return all(token.id >= 0 for token in tokens)


def _numbered(count: int) -> tuple[Token, ...]:
    return tuple(Token(-1, f"[{place}]") for place in range(count))


class _ReachedError(Exception):
    """Ends a pass early: what was looked for has been found."""
