"""Definitions of all roles in one table, the battery: probe, evidence, threshold and paper of each.

A role says what a head does in a sentence, on which probe that is tested, what has to be measured there, and who
described it first. A head earns it if every measure is large enough (its threshold), beats the strongest rival answer
that the same head gives (its margin), and does so on so many inputs that chance is ruled out for the whole model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headscope.heads.roles.measures import Measure
from headscope.heads.roles.probes import grammar, text_probes, token_probes
from headscope.heads.roles.probes.probe import AttentionKind, Probe
from headscope.heads.roles.probes.vocabulary import Vocabulary


@dataclass(frozen=True)
class _Paper:
    """The paper that described a role first, as far as we know."""

    authors: str
    year: int
    title: str
    url: str

    def __str__(self) -> str:
        return f"{self.authors} ({self.year}), {self.title}"


@dataclass(frozen=True)
class ProbeMaker:
    """A named probe, and the function that makes it from a vocabulary, the number of inputs and a seed."""

    name: str
    make: Callable[[Vocabulary, int, int], Probe]


@dataclass(frozen=True)
class Evidence:
    """A measure that a head has to reach on the probe: its threshold, its margin above the rival, and why that much."""

    kind: Measure
    of: str
    threshold: float
    margin: float
    reason: str


@dataclass(frozen=True)
class Role:
    """One row of the table. The first measure of ``evidence`` is the role's score; all have to hold."""

    name: str
    sentence: str
    probe: ProbeMaker
    evidence: tuple[Evidence, ...]
    sites: frozenset[AttentionKind]
    paper: _Paper | None


REPEAT = ProbeMaker("repeat", token_probes.repeat)
SCATTERED = ProbeMaker("scattered", token_probes.scattered)
SEPARATED = ProbeMaker("text", token_probes.separated)
SEQUENCES = ProbeMaker("sequences", token_probes.sequences)
ALIGNED = ProbeMaker("aligned", token_probes.aligned)
GIVING = ProbeMaker("indirect objects", text_probes.indirect_objects)
NEEDLE = ProbeMaker("needle", text_probes.needle)

CAUSAL: frozenset[AttentionKind] = frozenset({"causal"})
BOTH_WAYS: frozenset[AttentionKind] = frozenset({"bidirectional"})
SELF = CAUSAL | BOTH_WAYS
CROSS: frozenset[AttentionKind] = frozenset({"cross"})

_ARXIV = "https://arxiv.org/abs/"

RAGANATO = _Paper(
    "Raganato and Tiedemann", 2018, "An Analysis of Encoder Representations in Transformer-Based Machine Translation",
    "https://aclanthology.org/W18-5431/",
)  # fmt: skip
XIAO = _Paper("Xiao et al.", 2023, "Efficient Streaming Language Models with Attention Sinks", _ARXIV + "2309.17453")
CLARK = _Paper("Clark et al.", 2019, "What Does BERT Look At? An Analysis of BERT's Attention", _ARXIV + "1906.04341")
WANG = _Paper(
    "Wang et al.", 2022, "Interpretability in the Wild: a Circuit for Indirect Object Identification in GPT-2 Small",
    _ARXIV + "2211.00593",
)  # fmt: skip
ELHAGE = _Paper(
    "Elhage et al.", 2021, "A Mathematical Framework for Transformer Circuits",
    "https://transformer-circuits.pub/2021/framework/index.html",
)  # fmt: skip
OLSSON = _Paper("Olsson et al.", 2022, "In-context Learning and Induction Heads", _ARXIV + "2209.11895")
GOULD = _Paper(
    "Gould et al.", 2023, "Successor Heads: Recurring, Interpretable Attention Heads In The Wild", _ARXIV + "2312.09230"
)
WU = _Paper("Wu et al.", 2024, "Retrieval Head Mechanistically Explains Long-Context Factuality", _ARXIV + "2404.15574")
BAHDANAU = _Paper(
    "Bahdanau et al.", 2014, "Neural Machine Translation by Jointly Learning to Align and Translate",
    _ARXIV + "1409.0473",
)  # fmt: skip

MOST = "more than half of its attention, so that no other position can have as much"
PUBLISHED = "the threshold at which Olsson's recipe gives GPT-2 small's five well-known induction heads and no others"
AS_INDUCTION = "the threshold of induction, since none was published for this role"
RAISED = "above nine tenths of the candidates; chance is one half, and a random OV circuit stays near it"
ABOVE_CHANCE = "clearly above one half, the chance level"
A_FIFTH = "a fifth of its attention on one word, even though trained heads give much of it to the first token"
A_FIFTIETH = "one fiftieth of all heads' direct logit attributions together, several times an equal share"


def _attention(of: str, threshold: float, reason: str, margin: float = 0.1) -> Evidence:
    return Evidence("attention", of, threshold, margin, reason)


def _arcs(name: str, sentence: str, templates: Sequence[str], what: str, paper: _Paper | None = CLARK) -> Role:
    maker = ProbeMaker(name, text_probes.arc_probe(templates, what))
    return Role(name, sentence, maker, (_attention("arc", 0.2, A_FIFTH),), SELF, paper)


ROLES = (
    Role(
        "previous token",
        "Attends to the previous token.",
        REPEAT, (_attention("previous", 0.5, MOST),), SELF, RAGANATO,
    ),
    Role("next token", "Attends to the next token.", REPEAT, (_attention("next", 0.5, MOST),), BOTH_WAYS, RAGANATO),
    Role("itself", "Attends to its own token.", REPEAT, (_attention("itself", 0.5, MOST),), SELF, RAGANATO),
    Role(
        "first token",
        "On random words, attends to the first token: an attention sink.",
        REPEAT, (_attention("first", 0.5, MOST),), SELF, XIAO,
    ),
    Role(
        "separators",
        "Attends to punctuation and separators.",
        SEPARATED, (_attention("separators", 0.5, MOST),), SELF, CLARK,
    ),
    Role(
        "duplicate token",
        "Attends to earlier copies of its own token.",
        SCATTERED, (_attention("duplicate", 0.35, AS_INDUCTION),), SELF, WANG,
    ),
    Role(
        "copying",
        "Its OV circuit raises the token that it attends to.",
        REPEAT, (Evidence("reading", "itself", 0.9, 0.2, RAISED),), CAUSAL, ELHAGE,
    ),
    Role(
        "induction",
        "Finds an earlier copy of the current token, attends to the token that followed it, and raises that token.",
        REPEAT,
        (_attention("induction", 0.35, PUBLISHED), Evidence("reading", "itself", 0.65, 0.1, ABOVE_CHANCE)),
        CAUSAL, OLSSON,
    ),
    Role(
        "successor",
        "Raises the successor of the token that it attends to: Tuesday after Monday, 4 after 3.",
        SEQUENCES, (Evidence("reading", "successor", 0.9, 0.2, RAISED),), CAUSAL, GOULD,
    ),
    Role(
        "name mover",
        "Where a name comes next, attends to the person who has not acted yet, and raises that name.",
        GIVING, (_attention("receiver", 0.2, A_FIFTH), Evidence("share", "+", 0.02, 0.02, A_FIFTIETH)), CAUSAL, WANG,
    ),
    Role(
        "negative name mover",
        "Where a name comes next, attends to the person who has not acted yet, and lowers that name.",
        GIVING, (_attention("receiver", 0.2, A_FIFTH), Evidence("share", "-", 0.02, 0.02, A_FIFTIETH)), CAUSAL, WANG,
    ),
    Role(
        "S-inhibition",
        "Attends to the person who was named twice, and makes the name movers attend to them less.",
        GIVING,
        (
            _attention("giver again", 0.2, A_FIFTH),
            Evidence("effect", "name movers", 0.02, 0.01, "one fiftieth of the name movers' attention"),
        ),
        CAUSAL, WANG,
    ),
    Role(
        "retrieval",
        "Finds the one fact in a long text that the end asks about, and raises its answer.",
        NEEDLE,
        (
            _attention("needle", 0.1, "a tenth, the threshold of the paper's own score", 0.05),
            Evidence("share", "+", 0.01, 0.01, "one hundredth of all heads' direct logit attributions together"),
        ),
        CAUSAL, WU,
    ),
    _arcs(
        "coreference",
        "A pronoun attends to the person it refers to.",
        grammar.COREFERENCE, "two people of different gender and a pronoun",
    ),
    _arcs(
        "verb to subject",
        "A verb attends to its subject, past other nouns.",
        grammar.VERB_TO_SUBJECT, "a verb, its subject, and another noun",
    ),
    _arcs(
        "noun to modifier",
        "A noun attends to its own adjective.",
        grammar.NOUN_TO_MODIFIER, "a noun, its adjective, and another adjective",
    ),
    _arcs(
        "negation",
        "A negated word attends to its “not”.",
        grammar.NEGATION, "a negated word, its “not”, and another adverb", None,
    ),
    Role(
        "alignment",
        "Attends to the same word in the source.",
        ALIGNED, (_attention("same word", 0.5, MOST),), CROSS, BAHDANAU,
    ),
    Role(
        "alignment ahead",
        "Attends to the word of the source that is written next.",
        ALIGNED, (_attention("next word", 0.5, MOST),), CROSS, BAHDANAU,
    ),
)  # fmt: skip

BATTERY: dict[str, Role] = {role.name: role for role in ROLES}
