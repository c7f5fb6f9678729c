"""What the page may ask and what it is told. The front end's types are generated from these models.

A card that comes with arrays is the ``values`` part of a container (see wire.py); its docstring names the arrays.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1
MAX_CHARACTERS = 1_000_000

Unit = Literal["share", "nats", "tokens"]
Pooling = Literal["max", "mean"]
Removal = Literal["zero", "mean"]
Measure = Literal["weight", "row", "value"]
Stream = Literal["text", "written"]
Span = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SiteCard(Strict):
    """One attention module."""

    name: str
    n_heads: int
    n_kv_heads: int
    d_head: int
    d_value: int
    kind: Literal["self", "cross", "merged"]
    causal: bool
    window: int | None
    queries: Stream = Field(description="the text that looks, at this site")
    keys: Stream = Field(description="the text that is looked at")


class QuestionCard(Strict):
    """Something every head is asked on a text: a question (a share of its attention) or a trait."""

    name: str
    title: str
    sentence: str
    unit: Unit


class Models(Strict):
    """The models this page may look through; it opens on the first. ``opens``: whether it may name others."""

    names: list[str]
    titles: list[str] = Field(description="what a person calls each of them")
    opens: bool = False


class OpenRequest(Strict):
    """A model to open, by its name on the hub or its folder on the machine that serves the page."""

    name: str = Field(min_length=1, max_length=512)


class OpenedModel(Strict):
    """A model that was opened, by its name on this page."""

    name: str


class ModelCard(Strict):
    """The model under the microscope."""

    schema_version: int = SCHEMA_VERSION
    name: str
    title: str = Field(description="what a person calls it")
    d_model: int
    vocabulary: int | None
    context: int | None
    trained: int | None
    sites: list[SiteCard]
    questions: list[QuestionCard]
    notes: list[str] = []


class TokenCard(Strict):
    """A token as the model reads it, and the characters of the text it came from (none for an added token)."""

    text: str
    id: int
    start: int | None
    end: int | None


class Guess(Strict):
    """A possible next token."""

    text: str
    id: int
    probability: float


class LookRequest(Strict):
    """A text, or the name of a look whose text the program still keeps."""

    text: str | None = Field(default=None, max_length=MAX_CHARACTERS)
    look: str | None = Field(default=None, max_length=64)


class LookCard(Strict):
    """One text under the microscope.

    Arrays: ``answers`` float32 [question, head], the heads of all sites in order, NaN where the text gives no place to
    ask; ``thumbnails`` uint8 [head, side, side], round(255·√weight), pooled by the maximum where the text is longer
    (a text past 1,024 tokens by a sample of its rows).
    """

    schema_version: int = SCHEMA_VERSION
    look: str
    text: str
    tokens: list[TokenCard]
    written: list[TokenCard] = Field(description="what a model that reads one text and writes another has written")
    read: int = Field(description="tokens the model reads: what is shown")
    length: int = Field(description="tokens the text has")
    asked: list[int] = Field(description="for each question, at how many positions of this text it could be asked")


class WeightsRequest(Strict):
    """A rectangle of one head's pattern; with ``pool`` > 1 each number stands for pool × pool weights."""

    look: str
    head: str
    rows: Span
    columns: Span
    pool: int = Field(default=1, ge=1)
    how: Pooling = "max"
    measure: Measure = Field(
        default="weight",
        description="the weight; the weight as a part of its row's largest; or the weight times the length of the "
        "value vector it carries (before W_O)",
    )
    aside: bool = Field(default=False, description="leave the first key out when a row's largest weight is sought")


class WeightsCard(Strict):
    """Arrays: ``weights`` float32 [row, column]."""

    look: str
    head: str
    rows: Span
    columns: Span
    pool: int
    how: Pooling
    measure: Measure
    aside: bool


class NamedToken(Strict):
    """A token of the vocabulary."""

    id: int
    text: str


class TokenRequest(Strict):
    """A next token as a person types it."""

    text: str = Field(max_length=200)


class FoundToken(NamedToken):
    """The first of the tokens that were typed; ``spaced``: the one that stands for the same after a space."""

    of: int = Field(description="how many tokens were typed")
    spaced: NamedToken | None


class MixRequest(Strict):
    """What the heads of one site hand to one position, and toward which next token that pushes."""

    look: str
    site: str
    position: int = Field(ge=0)
    toward: int | None = Field(default=None, description="a token id; the likeliest next token unless given")
    minus: int | None = Field(default=None, description="a token id; its logit is taken away from the first one's")


class MixCard(Strict):
    """One site at one position, head by head.

    Arrays, float32: ``reads`` [head, key]; ``delivered`` [head, d_value]; ``parts`` [head, d_model], each head's vector
    through W_O; ``bias`` [d_model]; ``output`` [d_model], what the site hands on, so that parts + bias = output;
    ``shares`` [head of the whole model], each head's share of the logit of ``toward``, less that of ``minus``.
    """

    look: str
    site: str
    position: int
    toward: Guess | None = Field(description="none where no logit can be split over the heads; the note says why")
    minus: Guess | None = None
    kind: Literal["exact", "head-local", "mixed"] = Field(description="what kind of sum the parts make")
    note: str = Field(default="", description="how the final norm was taken into account, or why it was not")


class Edge(Strict):
    """One arrow of one head: a query that looks at a key."""

    head: str
    query: int = Field(ge=0)
    key: int = Field(ge=0)


class SamplingRequest(Strict):
    """How a token would be drawn: temperature first, then the k likeliest, then the fewest that make up the share p."""

    temperature: float = Field(default=1.0, ge=0, le=100, allow_inf_nan=False)
    top_k: int | None = Field(default=None, ge=1)
    top_p: float | None = Field(default=None, gt=0, le=1)


class PredictRequest(Strict):
    """The next token as it is, and with some heads taken out or some arrows cut."""

    look: str
    position: int = Field(ge=0)
    off: list[str] = []
    cuts: list[Edge] = Field(default=[], max_length=64)
    how: Removal = "zero"
    count: int = Field(default=6, ge=1, le=100)
    sampling: SamplingRequest | None = None


class Sampled(Strict):
    """What temperature, top-k and top-p leave of the model's own distribution.

    ``probabilities`` belong to the guesses; ``ladder`` holds the likeliest tokens' probabilities after the temperature,
    best first; ``after_k`` and ``kept`` say how many tokens are left after each cut, ``mass`` how much of the tempered
    probability they had.
    """

    probabilities: list[float]
    ladder: list[float]
    after_k: int
    kept: int
    mass: float


class Prediction(Strict):
    """``without``: the same tokens' probabilities under the edits; ``kl``: KL(as is ‖ edited) in nats."""

    look: str
    position: int
    off: list[str]
    cuts: list[Edge] = []
    how: Removal
    guesses: list[Guess]
    without: list[float] | None
    kl: float | None
    sampled: Sampled | None = None


class Progress(Strict):
    """How far the work is that this model is busy with; nothing when it rests."""

    what: str = ""
    done: int = 0
    total: int = 0


class ImportanceRequest(Strict):
    """How much each head matters on a text."""

    look: str


class ImportanceCard(Strict):
    """First-order importance: how much the loss would rise, in nats a token, were the head switched off.

    Arrays: ``importance`` float32 [head].
    """

    look: str
    read: int = Field(description="the tokens it was measured on: the first of a long text")


class FeaturedHead(Strict):
    """A head that a paper names, beside what these weights show."""

    head: str
    published: float | None
    outcome: Literal["agrees", "differs", "not tested"]
    score: float | None
    rank: int | None
    why: str


class PaperClaim(Strict):
    """What one source says about some heads of this model."""

    role: str
    source: str
    note: str
    heads: list[FeaturedHead]


class Featured(Strict):
    """Heads of this model that papers speak of."""

    claims: list[PaperClaim]


class EvidencePiece(Strict):
    """One thing that was measured on a head: its score with an interval, and its own strongest other answer."""

    measure: str
    score: float
    low: float
    high: float
    rival: float
    rival_name: str
    threshold: float
    p: float


class Effect(Strict):
    """What the probe's task loses when the head is switched off."""

    task: str
    whole: float
    loss: float
    low: float
    high: float


class Finding(Strict):
    """A head that earned a role."""

    head: str
    role: str
    strongest: bool
    p: float
    evidence: list[EvidencePiece]
    ablated: Effect | None


class RoleTrial(Strict):
    """One role on this model; ``scores`` and ``rivals`` have an entry for every head, in order."""

    role: str
    sentence: str
    paper: str
    tested: bool
    why_not: str
    probe: str
    n_inputs: int
    named: list[str]
    measure: str
    threshold: float | None
    control: float | None = Field(description="the best head of the same model with random weights")
    scores: list[float | None]
    rivals: list[float | None]


class Roles(Strict):
    """What the heads of the model are called, on what evidence; or that nobody has tested them yet."""

    state: Literal["untested", "testing", "tested"]
    named: int = 0
    without: int = 0
    resting: int = Field(default=0, description="heads whose only role is to rest on the first token")
    findings: list[Finding] = []
    trials: list[RoleTrial] = []
    recipe: str = ""


class Problem(Strict):
    """What went wrong, in one sentence for the person at the page."""

    kind: str
    message: str
