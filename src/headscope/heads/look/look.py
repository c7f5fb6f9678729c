"""Look: one text read by one model. Statistics of every head from one pass; attention patterns on request."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, overload

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention import pattern as attention_pattern
from headscope.attention.backends.waiting_layers import ObservedLayer
from headscope.attention.engine import observe
from headscope.attention.observation import Rows
from headscope.attention.pattern import Index, PatternSource, Pooled
from headscope.attention.questions import Question
from headscope.checked import checked
from headscope.errors import HeadNameError, InputError
from headscope.heads.edits.edit import BoundEdit, Edits
from headscope.heads.figure import Figure
from headscope.heads.look.activation_cache import ActivationCache, SiteActivations
from headscope.heads.look.attribution import Contributions, LogitAttribution, site_contribution, split_logit
from headscope.heads.look.logit_lens import logit_lens
from headscope.heads.look.sampling import ClassPrediction, Prediction, class_predictions, strongest_predictions
from headscope.heads.look.table import TRAITS, HeadStatistics, plot_look
from headscope.heads.questions.label_rules import LabelRule
from headscope.heads.questions.standard_questions import (
    STANDARD,
    Sides,
    StandardAnswers,
    VisibleKeys,
    answerable,
    are_words,
)
from headscope.models.inputs.media_positions import NOT_TEXT, grid_labels, numbered_labels
from headscope.models.modes import own_precision
from headscope.models.protocol import Prepared, Token
from headscope.models.recording import OpenModel
from headscope.models.structure.recorded_pass import RecordedPass
from headscope.names import Head, HeadName, ModelShape, SiteName

LARGEST_PATTERN = 2**26  # cells of dense patterns; larger ones are read in rectangles

if TYPE_CHECKING:
    import pyarrow as pa

    from headscope.heads.explain.trace import TracedPrediction
    from headscope.heads.explain.why import Why
    from headscope.heads.questions.where import HeadWhere, Where


def span_of(tokens: Sequence[Token], text: str, first: int = 0) -> range:
    """Return the positions of the first occurrence of a passage at or after a position."""
    ends = [0, *accumulate(len(token.text) for token in tokens)]
    start = "".join(token.text for token in tokens).find(text, ends[first])
    if start < 0:
        raise InputError(f"{text!r} does not occur in this text{' after what came before' if first else ''}")
    return range(bisect_right(ends, start) - 1, bisect_left(ends, start + len(text)))


def place_of(tokens: Sequence[Token], place: int | str, what: str) -> int:
    """A position: a number, negative from the end, or a token that occurs once."""
    if isinstance(place, str):
        found = [index for index, token in enumerate(tokens) if place in (token.text, token.text.strip())]
        if len(found) != 1:
            where = f"occurs at positions {found}; give one of them" if found else "does not occur in this text"
            raise InputError(f"the {what} {place!r} {where}")
        return found[0]
    if not -len(tokens) <= place < len(tokens):
        raise InputError(f"{what} {place}: this text has {len(tokens)} tokens, 0–{len(tokens) - 1}")
    return place % len(tokens)


def needs_predictions(look: Look) -> None:
    """Raise where no next token is predicted, or none was kept."""
    if look.cache.logits is not None and not look.cache.logits.shape[-1]:
        raise InputError("this look has no logits: it was captured from a server; open it with its model")
    if look.shape.vocabulary is None:
        raise InputError(f"{look.shape.name} predicts no tokens: it is an encoder without a language-model head")


@checked
class Look:
    """One text read by a model: ``look.pattern("3.5")`` is a head's pattern, ``look.table()`` every head's numbers."""

    app: ClassVar[Callable[[], Any] | None] = None
    """Imports what shows looks: heads may not import the app, so it is set by the package."""

    def __init__(self, model: OpenModel, prepared: Prepared, edits: Sequence[BoundEdit] = (), key: str = "") -> None:
        self.model = model
        self.prepared = prepared
        self.edits = Edits(model, edits)
        self.key = key
        self._numbers: dict[tuple[int, bool, tuple[int, int] | None], tuple[Token, ...]] = {}
        self.kept_pass: RecordedPass | None = None
        """The recorded pass, once something has been asked of it."""
        self.explained: Any = None
        """Heads whose scores have been split."""
        self.cache = ActivationCache(model, prepared.inputs, self.edits)

    @cached_property
    def _answers(self) -> StandardAnswers:
        return StandardAnswers()

    def read(self) -> Look:
        """Run the model on this text."""
        self.cache.read(self.questions)
        self.edits.refuse_beyond(self.cache.reached)
        return self

    def observe(self) -> Look:
        """Run the model on this text and observe every head in the same pass."""
        self.cache.at_once = True
        return self.read()

    def save(self, path: str | Path) -> None:
        """Save to one file that ``headscope.open_look`` opens, with or without the model."""
        if Path(path).suffix not in ("", ".headscope", ".safetensors"):
            raise InputError(
                f"{path}: a look is saved as .headscope, which open_look opens; pictures are written by "
                "look.plot(head).save(path), a page by look.save_html(path)"
            )
        from headscope.heads.look.saved_look import save_look

        save_look(self, Path(path))

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens that were read."""
        return self.prepared.tokens

    @property
    def written(self) -> tuple[Token, ...]:
        """The tokens whose next token is predicted: in an encoder-decoder model, the decoder's."""
        return self.prepared.decoder_tokens or self.prepared.tokens

    def query_tokens(self, site: SiteName) -> tuple[Token, ...]:
        """The tokens on the query side of a site."""
        site = self.model.shape.find_site(site)
        beside = self.prepared.stacks.get(site.partition(".")[0])
        text = beside or (self.written if site.startswith("decoder") else self.tokens)
        return text if self._has_length(site, 0, len(text)) else self._numbered(site, 0)

    def key_tokens(self, site: SiteName) -> tuple[Token, ...]:
        """The tokens on the key side of a site."""
        site = self.model.shape.find_site(site)
        cross = self.model.shape.sites[site].kind == "cross"
        texts = (self.prepared.context, self.tokens) if cross else (self.query_tokens(site),)
        fits = (text for text in texts if text and self._has_length(site, 1, len(text)))
        return next(fits, None) or self._numbered(site, 1)

    @property
    def shape(self) -> ModelShape:
        """Sites, heads and widths of the model."""
        return self.model.shape

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that ran on this text, in order."""
        return tuple(self.cache.reached)

    @property
    def n_windows(self) -> dict[str, int]:
        """Sites that split their input into windows, each attending on its own, and how many windows there are.

        Everything a look says of such a site is about its first window.
        """
        return {site: count for site, count in self.cache.n_windows.items() if count > 1}

    @property
    def logits(self) -> Float[Tensor, "query vocabulary"]:
        """The model's logits at every position, under this look's edits; of a long text from another pass."""
        return (self.cache.run().logits if self.cache.logits is None else self.cache.logits)[0]

    @own_precision()
    def statistics(self, site: SiteName) -> Rows:
        """Entropy, distance, strongest key and the standard questions of every head and row of a site, a batch of 1.

        (Of a site with windows: a batch of all of them.)
        """
        return self._site(site).rows

    @own_precision()
    def mean_answers(self, site: SiteName) -> dict[str, Float[Tensor, " head"]]:
        """Mean mass per head on every standard question, over the rows that can answer it; absent if no row can.

        Cross-attention has questions of its own: see ``questions_between``; *monotone* is a share of rows.
        """
        return self._answers.means(self, self._reached(site))

    @own_precision()
    def mean_traits(self, site: SiteName) -> dict[str, Float[Tensor, " head"]]:
        """Mean entropy, distance, its standard deviation and strongest weight per head, over rows with a choice.

        The first row of causal self-attention has one key whatever the head does; a scan leaves it out too. A text of
        one token has no such row, and no traits.
        """
        rows, known = self.statistics(site), self.shape.sites[self._reached(site)]
        assert rows.entropy is not None
        assert rows.distance is not None
        assert rows.strongest is not None
        traits = (rows.entropy, rows.distance.mean, rows.distance.std, rows.strongest.weight)
        first = int(known.causal and known.kind == "self")
        if rows.entropy.shape[2] <= first:
            return {}
        return {name: values[0, :, first:].mean(-1) for name, values in zip(TRAITS, traits, strict=True)}

    def sides(self, site: SiteName) -> Sides | None:
        """The tokens of queries and keys where they can be asked about: one text, or two in cross-attention."""
        text, keys = self.query_tokens(site), self.key_tokens(site)
        return (text, keys) if keys is text or self.model.shape.sites[str(site)].kind == "cross" else None

    def visible_keys(self, site: SiteName) -> VisibleKeys:
        """Which keys the queries of a site may attend to."""
        site = self._reached(site)
        return VisibleKeys.of(self.shape.sites[site].causal, self._site(site).scores.mask, self.cache.reached[site][1])

    @own_precision()
    def ask(self, rule: LabelRule) -> dict[Head, float]:
        """Ask a question of your own: mean mass per head where labels are equal, over the rows that can answer it."""
        found: dict[Head, float] = {}
        for site in self.sites:
            sides, source = self.sides(site), self.site_source(site)
            if sides is None or (source.q.shape[2], source.k.shape[2]) != tuple(map(len, sides)):
                continue
            query, key = (labels[None].to(source.q.device) for labels in rule.labels(*sides))
            question = Question(query, key, rule.exclude_self and sides[0] is sides[1])
            rows = answerable(question, self.visible_keys(site))[0]
            if bool(rows.any()):
                asked = {rule.name: question}
                seen = observe(source.q, source.k, source.k, scores=source.scores, questions=asked, statistics=set())
                means = seen.mass[rule.name][0][:, rows.to(source.q.device)].mean(-1)
                found |= {Head(site, index): value for index, value in enumerate(means.tolist())}
        return found

    @own_precision()
    def pattern(self, head: HeadName | int, *more: object) -> Float[Tensor, "query key"]:
        """The attention pattern of one head, named ``"3.5"``, ``(3, 5)`` or ``Head("3", 5)``."""
        if more:
            given = ", ".join(map(repr, (head, *more)))
            raise HeadNameError(
                f'pattern({given}): give one head, as in pattern("3.5") or pattern((3, 5)); all heads of layer 3 are '
                "patterns(3), a part of one pattern is weights(head, rows, columns)"
            )
        found = self.find(head)
        self._check_size(1, found.site)
        return attention_pattern.weights(self.cache.source(found.site, found.head), slice(None), slice(None))[0, 0]

    def patterns(self, site: SiteName) -> Float[Tensor, "head query key"]:
        """The attention patterns of all heads of a site."""
        source = self.site_source(site)
        self._check_size(source.q.shape[1], str(site))
        return attention_pattern.weights(source, slice(None), slice(None))[0]

    @own_precision()
    def weights(
        self, head: HeadName, rows: Index | int = slice(None), columns: Index | int = slice(None)
    ) -> Float[Tensor, "query key"]:
        """Any rectangle of one head's pattern, exact: rows are queries, columns keys."""
        if isinstance(rows, int) or isinstance(columns, int):
            raise InputError(
                f"weights({str(head)!r}, {rows}, {columns}): rows and columns are slices or tensors of positions; one "
                f'weight is pattern("{head}")[query, key], the first three rows are weights("{head}", slice(0, 3))'
            )
        return attention_pattern.weights(self.source(head), rows, columns)[0, 0]

    def site_weights(self, site: SiteName, rows: slice) -> Float[Tensor, "head query key"]:
        """Some rows of the attention patterns of all heads of a site."""
        return attention_pattern.weights(self.site_source(site), rows, slice(None))[0]

    @overload
    def where(self, head: None = None) -> Where: ...
    @overload
    def where(self, head: HeadName) -> HeadWhere: ...
    @own_precision()
    def where(self, head: HeadName | None = None) -> Where | HeadWhere:
        """Where each head's attention goes on this text: shares of disjoint classes of keys, which add up to 1."""
        from headscope.heads.questions.where import where

        if head is None:
            return where([self])
        found = self.shape.find(head)
        return where([self], only=found.site)[found]

    def to_short(self, head: HeadName | None = None, query: int | str = -1) -> dict[str, Any]:
        """The text's main numbers for a program; of one head, the keys that it attends to most from one position."""
        from headscope.heads.short import short_attention, short_look

        return short_look(self) if head is None else short_attention(self, head, query)

    def table(self) -> pa.Table:
        """An Arrow table with one row per head and statistic."""
        return HeadStatistics(self).table()

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame."""
        return HeadStatistics(self).to_pandas()

    def matrix(self, statistic: str) -> Float[Tensor, "layer head"]:
        """A statistic of every head, such as ``"entropy"`` or ``"induction"``; NaN if there is none."""
        return HeadStatistics(self).matrix(statistic)

    def plot(self, what: HeadName | int | None = None, query: int | str | None = None) -> Figure:
        """One head's pattern, every head's, or a map of a statistic: ``plot("5.6")``, ``plot()``, ``plot("entropy")``.

        A head of a model that reads pictures is drawn over its picture; ``query`` is what reads it.
        """
        if isinstance(what, str) and what in (*TRAITS, *STANDARD):
            return HeadStatistics(self).plot(what)
        media = Look.app().drawn_media(self, what, query) if Look.app is not None else None
        return media or plot_look(self, what)

    def save_html(self, path: str | Path) -> None:
        """Save the microscope with this text as one file, which opens offline in a browser."""
        assert Look.app is not None, "set when headscope is used"
        Look.app().save_html(self, path)

    @own_precision()
    def pooled(
        self, head: HeadName, shape: tuple[int, int], rows: slice = slice(None), columns: slice = slice(None)
    ) -> Pooled:
        """A rectangle of one head's pattern at lower resolution: mean and maximum over blocks."""
        return attention_pattern.pooled(self.source(head), shape, rows, columns)

    def source(self, head: HeadName) -> PatternSource:
        """q, k and log-sum-exp of one head, from which any part of its pattern is recomputed."""
        found = self.find(head)
        return self.cache.source(found.site, found.head)

    def site_source(self, site: SiteName) -> PatternSource:
        """q, k and log-sum-exp of all heads of a site."""
        return self.cache.source(self._reached(site))

    def value_norms(self, head: HeadName) -> Float[Tensor, " key"]:
        """The norm of each key's value vector."""
        found = self.find(head)
        norms = self._site(found.site).value_norms
        return norms[found.head // self.shape.sites[found.site].group_size]

    def z(self, site: SiteName) -> Float[Tensor, "head query d_value"]:
        """z of every head of a site: its attention pattern times its values."""
        return self.cache.z(self._reached(site))[0]

    @property
    def recorded(self) -> RecordedPass:
        """The text's pass as a graph of what was written into the residual stream; recorded on first use.

        It is kept if it fits in what a look keeps, and recorded again at each use otherwise.
        """
        self.cache.refuse_changed_weights()
        if self.kept_pass is not None:
            return self.kept_pass
        inputs, observer = self.prepared.inputs, self.cache.attend if self.edits else None
        found = RecordedPass(self.model, inputs, observer, until=self.sites, within=self.edits.during)
        self.kept_pass = found if self.cache.fits(found.nbytes) else None
        return found

    def forget_pass(self) -> None:
        """Let go of the recorded pass: thousands of small objects, which are made again when they are asked for."""
        if self.kept_pass is not None:
            self.cache.bytes -= self.kept_pass.nbytes
            self.kept_pass = self.explained = None

    @own_precision()
    def contributions(self, position: int | str, sites: Sequence[SiteName] | None = None) -> Contributions:
        """At one position: each head's z, its part through W_O, and their sum with the bias."""
        place = self.position(position)
        all_sites = [site for site in self.sites if self.query_tokens(site) == self.written]
        wanted = all_sites if sites is None else [self._reached(site) for site in sites]
        return Contributions(place, {site: site_contribution(self, site, place) for site in wanted})

    @own_precision()
    def logit_attribution(
        self, token: str | int, minus: str | int | None = None, position: int | str = -1
    ) -> LogitAttribution:
        """Direct logit attribution: one next-token logit, or a difference of two, split over the heads."""
        needs_predictions(self)
        place = self.position(position)
        for site in self.sites:
            self.model.output_weight(site)  # refused by name where heads cannot be split
        return split_logit(self.recorded, place, (token, minus), self.cache.logits_at(place))

    @own_precision()
    def why(
        self, head: HeadName, query: int | str = -1, key: int | str | None = None, minus: int | str | None = None
    ) -> Why:
        """Split one attention score over the writers into query and key; ``key=None`` is the strongest key of the row.

        The score is relative to the row's mean over visible keys, to the key ``minus``, or with ``minus="others"`` to
        the other keys weighted by the pattern.
        """
        from headscope.heads.explain.why import why

        return why(self, head, query, key, minus)

    @own_precision()
    def why_row(
        self, head: HeadName, query: int | str = -1, keys: Sequence[int] | None = None, minus: int | str | None = None
    ) -> list[Why]:
        """Split the scores of several keys of one row at once; all visible ones unless some are given."""
        from headscope.heads.explain.why import why_row

        return why_row(self, head, query, keys, minus)

    @own_precision()
    def trace(
        self, token: str | int, minus: str | int | None = None, position: int | str = -1, floor: float = 0.03
    ) -> TracedPrediction:
        """Trace a prediction back to tokens: heads, what they read, why they looked there, and who wrote it.

        Parts whose share of the prediction is below ``floor`` are left out, and counted.
        """
        from headscope.heads.explain.trace import trace

        return trace(self, token, minus, position, floor)

    def predictions(self, position: int | str = -1, count: int = 10) -> list[Prediction]:
        """The likeliest next tokens after a position."""
        needs_predictions(self)
        return strongest_predictions(self.model, self.cache.logits_at(self.position(position)), count)

    def classes(self, count: int = 5) -> list[ClassPrediction]:
        """The likeliest classes, of a model that puts a picture, sound or text into one."""
        return class_predictions(self.model, self.logits, count)

    def position(self, position: int | str) -> int:
        """A position in the text: a number (negative from the end), or a token that occurs once."""
        return place_of(self.written, position, "token" if isinstance(position, str) else "position")

    def span(self, text: str) -> range:
        """The positions of a passage that occurs once in this text, for ``hide``."""
        whole = "".join(token.text for token in self.tokens)
        if not text or whole.count(text) != 1:
            where = f"occurs {whole.count(text)} times" if text else "is empty"
            raise InputError(f"{text!r} {where} in this text; give a passage that occurs once")
        return span_of(self.tokens, text)

    def logit_lens(self, position: int | str = -1, count: int = 1) -> dict[str, list[Prediction]]:
        """The likeliest tokens if the stream before each layer, and after the last, were the end of the stream."""
        needs_predictions(self)
        return logit_lens(self, self.position(position), count)

    def token_id(self, token: str | int) -> int:
        """The id of a token given as text (with its leading space, where it has one) or as an id."""
        return self.model.processor.token_id(token)

    def find(self, head: HeadName | int) -> Head:
        """The head of that name, which this text reached."""
        found = self.model.shape.find(head)
        self._reached(found.site)
        return found

    def _site(self, site: SiteName) -> SiteActivations | ObservedLayer:
        return self.cache.site(self._reached(site))

    def _reached(self, site: SiteName) -> str:
        """The name of a site that this text reached."""
        name = self.model.shape.find_site(site)
        if name not in self.cache.reached:
            raise InputError(f"this text did not reach the site {site}; it reached {', '.join(self.sites)}")
        return name

    def _has_length(self, site: str, axis: int, length: int) -> bool:
        """Whether a site has this many positions: pooled keys, windows and added positions have others."""
        return site not in self.cache.reached or self.cache.reached[site][axis] == length

    def _check_size(self, n_heads: int, site: str) -> None:
        n_query, n_key = self.cache.reached[site]
        if n_heads * n_query * n_key > LARGEST_PATTERN:
            several = f"{n_heads}×" if n_heads > 1 else ""
            raise InputError(
                f"a pattern of site {site} has {several}{n_query}×{n_key} cells; read a part of it with weights(head, "
                "rows, columns), or all of it as a picture with pooled(head, (256, 256))"
            )

    def _numbered(self, site: str, axis: int) -> tuple[Token, ...]:
        windowed = site in self.n_windows
        grid = None if windowed else self.shape.sites[site].grid
        key = (self.cache.reached[site][axis], windowed, grid)
        if key not in self._numbers:  # one tuple for all sites: sides are known by identity
            names = grid_labels(grid, key[0]) or numbered_labels(key[0], windowed=windowed)
            self._numbers[key] = tuple(Token(NOT_TEXT, name) for name in names)
        return self._numbers[key]

    def questions(self, site: str, sizes: tuple[int, int], device: torch.device) -> dict[str, Question]:
        """The standard questions where queries and keys are this text's tokens, or two texts; none elsewhere."""
        return self._answers.questions(self.sides(site), sizes, device)

    def _repr_mimebundle_(self, **_: Any) -> Any:
        return None if Look.app is None else Look.app().display(self)

    def __repr__(self) -> str:
        text = ("" if are_words(self.tokens) else " ").join(token.text for token in self.tokens)
        short = text if len(text) <= 60 else text[:57] + "…"
        cut = f"; of {len(self.n_windows)} sites only the first window is shown" if self.n_windows else ""
        return f"Look({short!r}: {len(self.tokens)} tokens, {self.shape.n_heads} heads in {len(self.sites)} sites{cut})"
