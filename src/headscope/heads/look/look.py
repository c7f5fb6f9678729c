"""One text under the microscope: one observed pass, and every head's pattern on demand, never all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headscope.attention import pattern as attention_pattern
from headscope.attention.engine import observe
from headscope.attention.observation import Rows
from headscope.attention.observer import Call
from headscope.attention.pattern import Index, Pooled, Source
from headscope.attention.questions import Question
from headscope.errors import InputError
from headscope.heads.look.activation_cache import ActivationCache, SeenSite
from headscope.heads.look.attribution import Contributions, LogitAttribution, contributions_at, split_logit
from headscope.heads.look.edits import Bound
from headscope.heads.look.sampling import Prediction, strongest_predictions
from headscope.heads.questions.label_rules import LabelRule
from headscope.heads.questions.standard_questions import answerable, standard_questions
from headscope.models.inputs.patch_labels import NOT_TEXT, numbers
from headscope.models.protocol import OpenModel, Prepared, Token
from headscope.names import Head, ModelShape, renamed

ABOUT_PLACES = ("previous", "itself", "first")
LARGEST_PATTERN = 2**26  # cells of one dense pattern; larger ones are read in rectangles

_RENAMED = {"delivered": "z", "logit_shares": "logit_attribution", "pieces": "n_windows"}


class Look:
    """A text, seen. ``look.pattern("3.5")`` is one head's weights; ``look.statistics("3")`` a whole layer's numbers."""

    display: ClassVar[Callable[[Look], Any] | None] = None
    """Filled in by the app: how a notebook shows a look."""

    def __init__(self, model: OpenModel, prepared: Prepared, edits: Sequence[Bound] = (), key: str = "") -> None:
        self.model = model
        self.prepared = prepared
        self.edits = tuple(edits)
        self.key = key
        self._asked: dict[tuple[Token, ...], dict[str, Question]] = {}
        self._rows: dict[tuple[tuple[Token, ...], bool], dict[str, Tensor]] = {}
        self._cache = ActivationCache(model, prepared.inputs, self.edits)
        # An edit is mostly asked what it predicts; its heads are observed when somebody looks at them.
        self._logits = self._cache.predict() if self.edits else self._cache.observe(self._questions)

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
        return text if self._has_length(site, 0, len(text)) else self._numbered(site, 0)

    def key_tokens(self, site: str) -> tuple[Token, ...]:
        """The text that is looked at, at this site."""
        text = self.tokens if self.shape.sites[site].kind == "cross" else self.query_tokens(site)
        return text if self._has_length(site, 1, len(text)) else self._numbered(site, 1)

    @property
    def shape(self) -> ModelShape:
        """Sites, heads and widths of the model that was looked at."""
        return self.model.shape

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites this text reached, in order."""
        return tuple(self._cache.reached)

    @property
    def n_windows(self) -> dict[str, int]:
        """Sites that split their input into windows, each attending on its own, and how many windows there are.

        Everything a look says of such a site is about its first window.
        """
        return {site: count for site, count in self._cache.n_windows.items() if count > 1}

    @property
    def logits(self) -> Float[Tensor, "query vocabulary"]:
        """The model's own logits at every position, with this look's edits in force."""
        return self._logits[0]

    def statistics(self, site: str) -> Rows:
        """Entropy, distance, strongest key and the standard questions of every head and row of a site, a batch of 1.

        (Of a site with windows: a batch of all of them.)
        """
        return self._site(site).rows

    def mean_answers(self, site: str) -> dict[str, Float[Tensor, " head"]]:
        """Each head's mean mass on every standard question, over the rows that could answer; none if no row could."""
        asked = self._rows_asked(self.query_tokens(site), self.shape.sites[site].causal)
        masses = self.statistics(site).mass
        return {
            name: masses[name][0][:, where.to(masses[name].device)].mean(-1)
            for name, where in asked.items()
            if name in masses and bool(where.any())
        }

    def _rows_asked(self, text: tuple[Token, ...], causal: bool) -> dict[str, Bool[Tensor, " query"]]:
        """For each standard question the rows of a text that can answer it, found once for all sites."""
        key = (text, causal)
        if key not in self._rows:
            questions = self._asked.get(text, {})
            self._rows[key] = {name: answerable(question, causal)[0] for name, question in questions.items()}
        return self._rows[key]

    def ask(self, rule: LabelRule) -> dict[Head, float]:
        """A question of one's own: each head's mean mass where labels are equal, over the rows that have an answer."""
        found: dict[Head, float] = {}
        for site in self.sites:
            tokens, source = self.query_tokens(site), self.site_source(site)
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
        self,
        head: str | Head,
        rows: Index = slice(None),
        columns: Index = slice(None),
    ) -> Float[Tensor, "query key"]:
        """Any rectangle of one head's pattern, exact."""
        return attention_pattern.weights(self.source(head), rows, columns)[0, 0]

    def pooled(
        self, head: str | Head, shape: tuple[int, int], rows: slice = slice(None), columns: slice = slice(None)
    ) -> Pooled:
        """A rectangle of one head's pattern as a small picture: mean and maximum over blocks."""
        return attention_pattern.pooled(self.source(head), shape, rows, columns)

    def source(self, head: str | Head) -> Source:
        """What one head's pattern is recomputed from, for those who look at it through a measure of their own."""
        found = self._find(head)
        return self.site_source(found.site).only(found.head)

    def site_source(self, site: str) -> Source:
        """The same, for all heads of a site."""
        self._site(site)
        return self._cache.source(site)

    def value_norms(self, head: str | Head) -> Float[Tensor, " key"]:
        """How long each key's value is: a weight times this is how much it can carry."""
        found = self._find(head)
        norms = self._site(found.site).value_norms
        return norms[found.head // self.shape.sites[found.site].group_size]

    def z(self, site: str) -> Float[Tensor, "head query d_value"]:
        """z: what each head of a site delivered at every position."""
        rows = self._site(site).rows
        return rows.output[0] if rows.output.numel() else self._cache.recall(site)[2][0]

    def contributions(self, position: int | str, sites: Sequence[str] | None = None) -> Contributions:
        """At one position: what each head delivered, its part through W_O, and their sum with the bias."""
        place = self.position(position)
        wanted = [site for site in self.sites if self.query_tokens(site) == self.written] if sites is None else sites
        return contributions_at(self.model, self._cache.outputs(wanted, place), place, row=0)

    def logit_attribution(
        self, token: str | int, minus: str | int | None = None, position: int | str = -1
    ) -> LogitAttribution:
        """One next-token logit, or a difference of two, split over the heads at a position."""
        self._needs_predictions()
        place = self.position(position)
        parts = self.contributions(place)
        residual = self._cache.end(place)
        if residual is None:
            raise InputError("this model's final norm was not found, so a logit cannot be split over its heads")
        ids = [self.token_id(token)] + ([] if minus is None else [self.token_id(minus)])
        return split_logit(self.model, parts, residual, ids, self.logits[place])

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
        if site not in self._cache.reached:
            self.shape.find(Head(site, 0))
            raise InputError(f"this text did not reach the site {site}; it reached {', '.join(self.sites)}")
        if not self._cache.sites:
            self._cache.observe(self._questions)
        return self._cache.sites[site]

    def _has_length(self, site: str, axis: int, length: int) -> bool:
        """Whether these are the tokens of a site: pooled keys, windows and added places are others."""
        return site not in self._cache.reached or self._lengths(site)[axis] == length

    def _lengths(self, site: str) -> tuple[int, int]:
        return self._cache.reached[site]

    def _numbered(self, site: str, axis: int) -> tuple[Token, ...]:
        names = numbers(self._lengths(site)[axis], cut=site in self.n_windows)
        return tuple(Token(NOT_TEXT, name) for name in names)

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

    def _needs_predictions(self) -> None:
        if self.shape.vocabulary is None:
            raise InputError(f"{self.shape.name} predicts no tokens: it is an encoder without a language-model head")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return renamed(self, name, _RENAMED)

    def _repr_mimebundle_(self, **_: Any) -> Any:
        return None if Look.display is None else Look.display(self)

    def __repr__(self) -> str:
        text = ("" if _are_words(self.tokens) else " ").join(token.text for token in self.tokens)
        short = text if len(text) <= 60 else text[:57] + "…"
        cut = f"; of {len(self.n_windows)} sites only the first window is shown" if self.n_windows else ""
        return f"Look({short!r}: {len(self.tokens)} tokens, {self.shape.n_heads} heads in {len(self.sites)} sites{cut})"


def _are_words(tokens: Sequence[Token]) -> bool:
    """Tokens of a vocabulary; patches and moments only have a place, and none is another's copy."""
    return all(token.id >= 0 for token in tokens)
