"""The cards of Real heads: what each says, with the measurements its numbers come from.

In a text, `{name}` is a number of the card's `numbers`, measured when the page is recorded; **bold** is a word that is
attended to or comes next, *italics* the word that is selected. A card's `holds` are the claims without a number: the
program that records the page stops if one of them is false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.real_heads import more
from bench.real_heads.measure import Meter

SENTENCES = {
    "list": ("red seven lamp cloud fish stone red seven lamp cloud fish", ""),
    "name": ("While Anna and Tom were working, Tom handed the letter to", ""),
    "animal": ("The animal didn't cross the road because it was too tired", ""),
    "keys": ("The keys to the old wooden cabinet", "are were is was"),
    "months": ("January, February, March, April,", ""),
    "capital": ("The capital of Germany is", ""),
    "bracket": ("She wrote a list (apples, pears, plums and nuts", ""),
    "quiet": ("The old house at the end of the street was quiet that night, and nobody", ""),
}
"""Each recorded sentence, and the next words that are shown; the likeliest six (in place of what is missing) else."""
LIST, NAME, ANIMAL, KEYS, MONTHS, CAPITAL, BRACKET, QUIET = (text for text, _ in SENTENCES.values())

Number = Callable[[Meter], float]
OLSSON = ("Olsson et al. (2022), In-context Learning and Induction Heads", "https://arxiv.org/abs/2209.11895")
WANG = ("Wang et al. (2022), Interpretability in the Wild", "https://arxiv.org/abs/2211.00593")


@dataclass(frozen=True, kw_only=True)
class Card:
    """One head on one sentence: what to see, what was measured, and why it is not the whole story."""

    id: str
    group: str
    head: str
    sentence: str
    query: str
    """The word it attends from."""
    shown: str
    """The next word (or two) whose probability is followed."""
    short: str
    name: str
    see: str
    more: str
    limits: str
    paper: tuple[str, str]
    numbers: Mapping[str, Number] = field(default_factory=dict)
    holds: tuple[Callable[[Meter], bool], ...] = ()
    rows: Callable[[], list[more.Row]]
    kind: str
    """What the twenty more sentences are, in words."""
    towards: str
    """What it attends to in them, in words."""
    missed: tuple[str, str] = ("", "")
    """A role test that one would expect it to pass, and why it does not, in words; "" where there is no such test."""
    after: str = ""
    """An earlier head that this one depends on; its pattern without that one is recorded too."""
    followed: str = ""
    """The next word that is counted in them, in words; empty where the card claims no effect."""


def weight(head: str, text: str, query: str, *keys: str, without: str = "") -> Number:
    return lambda meter: meter.weight(text, head, query, *keys, without=without.split())


def then(text: str, words: str, without: str = "") -> Number:
    return lambda meter: meter.next(text, words, without.split())


def adds(head: str, text: str, word: str) -> Number:
    """What a head adds to a next word's logit on the direct path."""
    return lambda meter: meter.adds(text, head, word)


def resting(meter: Meter) -> float:
    """How many heads give the first word more than half of their attention, on average over the other words."""
    return float((meter.read(QUIET).patterns[:, 1:, 0].mean(-1) > 0.5).sum())


def strong(query: str, key: str, text: str, but: str) -> Number:
    """How many other heads give this word more than half of the attention from that one."""

    def count(meter: Meter) -> float:
        read = meter.read(text)
        found = read.patterns[:, read.at(query), read.at(key)] > 0.5
        return float(found.sum()) - float(found[meter.number(but)])

    return count


WORST = "2.4 5.6 8.0 9.2 14.3"
SINKS = "17.3 18.6 18.7 18.8 20.3 20.6 23.2 28.2"
RIVER = "My white horse drank at the river. My white horse drank at the"

CARDS = (
    Card(
        id="previous",
        group="Copying",
        head="16.0",
        sentence="list",
        query="fish#2",
        shown="stone",
        short="Previous token",
        name="Previous-token head",
        see="Every arc goes one word back. From each word, this head attends to the word just before it: {back} of its "
        "attention here.",
        more="Head 18.6, on the next card, depends on it: without 16.0, its attention to the first **stone** "
        "falls from "
        "{before} to {after}.",
        limits="It is not the only one. Head 1.2 also attends one word back, and without it **stone** falls "
        "to {early}. "
        "Head 11.1 does so too, and without it almost nothing changes ({other}).",
        numbers={
            "back": lambda meter: float(meter.read(LIST).patterns[meter.number("16.0")].diagonal(-1).mean()),
            "before": weight("18.6", LIST, "fish#2", "stone"),
            "early": then(LIST, "stone", "1.2"),
            "after": weight("18.6", LIST, "fish#2", "stone", without="16.0"),
            "other": then(LIST, "stone", "11.1"),
        },
        holds=(
            lambda meter: all(
                meter.read(LIST).patterns[meter.number(head)].diagonal(-1)[1:].mean() > 0.5 for head in ("1.2", "11.1")
            ),
        ),
        paper=OLSSON,
        rows=more.previous,
        kind="lists that start again",
        towards="the word before",
        followed="the next word of the list",
    ),
    Card(
        id="induction",
        after="16.0",
        group="Copying",
        head="18.6",
        sentence="list",
        query="fish#2",
        shown="stone",
        short="Induction",
        name="Induction head",
        see="The list starts again. At *fish*, this head attends to **stone**, the word that followed **fish** the "
        "first time: {weight}.",
        more="That is the word the model should say next, and the head raises it.",
        limits="{others:n} other heads give **stone** more than half of their attention, 17.5 among them. In “My white "
        "horse drank at the river. My white horse drank at the”, **river** even rises without 18.6, from "
        "{river} to {risen}.",
        numbers={
            "weight": weight("18.6", LIST, "fish#2", "stone"),
            "others": strong("fish#2", "stone", LIST, "18.6"),
            "river": then(RIVER, "river"),
            "risen": then(RIVER, "river", "18.6"),
        },
        holds=(lambda meter: meter.next(RIVER, "river", ["18.6"]) > meter.next(RIVER, "river"),),
        paper=OLSSON,
        rows=more.lists,
        kind="lists that start again",
        towards="the word that followed before",
        followed="the next word of the list",
    ),
    Card(
        id="opposite",
        missed=("induction", "but the test also asks that the head raises the token it attends to"),
        group="Copying",
        head="17.5",
        sentence="list",
        query="fish#2",
        shown="stone",
        short="Its opposite",
        name="Induction reversed",
        see="This is the arc of the induction head, with {weight} on **stone**. But this head makes that word "
        "less likely.",
        more="The pattern shows where a head attends. It does not show whether the head raises or lowers what it finds "
        "there.",
        limits="We know of no paper about such a head. Copy suppression is the closest: a head that lowers words the "
        "model is about to repeat.",
        numbers={"weight": weight("17.5", LIST, "fish#2", "stone")},
        paper=("McDougall et al. (2023), Copy Suppression", "https://arxiv.org/abs/2310.04625"),
        rows=more.lists,
        kind="lists that start again",
        towards="the word that followed before",
        followed="the next word of the list",
    ),
    Card(
        id="coreference",
        missed=("coreference", "enough on average, but not in enough of its sentences"),
        group="Grammar",
        head="13.8",
        sentence="animal",
        query="it",
        shown="to",
        short="Coreference?",
        name="From it to animal",
        see="At *it*, this head attends to **animal**: {weight}. **road** gets {road}.",
        more="You can see it, but here the model does not need it.",
        limits="It looks like coreference, but one arc does not tell: the word may be chosen because it is "
        "the subject. "
        "In “The dog chased the cat until it was tired”, 13.8 attends from **it** to **cat** ({cat}).",
        numbers={
            "weight": weight("13.8", ANIMAL, "it", "animal"),
            "road": weight("13.8", ANIMAL, "it", "road"),
            "cat": weight("13.8", "The dog chased the cat until it was tired", "it", "cat"),
        },
        paper=("Clark et al. (2019), What Does BERT Look At?", "https://arxiv.org/abs/1906.04341"),
        rows=more.it,
        kind="sentences with *it*",
        towards="what *it* can stand for",
    ),
    Card(
        id="agreement",
        missed=("", "No test asks for agreement: verb to subject asks where the verb attends, not the noun before it."),
        group="Grammar",
        head="26.0",
        sentence="keys",
        query="cabinet",
        shown="is was",
        short="Agreement",
        name="Subject head",
        see="At *cabinet*, this head skips four words and attends to **keys**, the subject: {weight}. So the verb must "
        "be plural.",
        more="At the same time, **are** and **were** fall from {plural} to {fallen}.",
        limits="Head 27.8 attends to **keys** too. Only without both is the singular more likely: {singular} against "
        "{less}.",
        numbers={
            "weight": weight("26.0", KEYS, "cabinet", "keys"),
            "plural": then(KEYS, "are were"),
            "fallen": then(KEYS, "are were", "26.0"),
            "singular": then(KEYS, "is was", "26.0 27.8"),
            "less": then(KEYS, "are were", "26.0 27.8"),
        },
        holds=(
            lambda meter: meter.weight(KEYS, "27.8", "cabinet", "keys") > 0.3,
            lambda meter: meter.next(KEYS, "is was", ["27.8"]) < meter.next(KEYS, "are were", ["27.8"]),
        ),
        paper=(
            "Finlayson et al. (2021), Causal Analysis of Syntactic Agreement Mechanisms",
            "https://arxiv.org/abs/2106.06087",
        ),
        rows=more.subjects,
        kind="sentences with a plural subject and a singular noun after it",
        towards="the subject",
        followed="*is* or *was*",
    ),
    Card(
        id="duplicate",
        missed=("duplicate token", "on random words, where 0.35 is needed"),
        group="Finding a name",
        head="8.1",
        sentence="name",
        query="Tom#2",
        shown="Anna",
        short="Duplicate token",
        name="Duplicate-token head",
        see="At the second *Tom*, this head attends to the first **Tom**: {weight}. The name has been said before.",
        more="Head 20.0, on the next card, depends on it: without 8.1, its attention to the second **Tom** falls from "
        "{before} to {after}.",
        limits="It is not alone. Heads 2.4, 5.6, 8.0, 9.2 and 14.3 do the same. Without all five, **Anna** falls to "
        "{five}, as without 8.1 alone. Without all six it falls to {six}.",
        numbers={
            "weight": weight("8.1", NAME, "Tom#2", "Tom"),
            "before": weight("20.0", NAME, "to", "Tom#2"),
            "after": weight("20.0", NAME, "to", "Tom#2", without="8.1"),
            "five": then(NAME, "Anna", WORST),
            "six": then(NAME, "Anna", WORST + " 8.1"),
        },
        holds=(
            lambda meter: min(meter.weight(NAME, head, "Tom#2", "Tom") for head in WORST.split()) > 0.2,
            lambda meter: abs(meter.next(NAME, "Anna", WORST.split()) - meter.next(NAME, "Anna", ["8.1"])) < 0.012,
        ),
        paper=WANG,
        rows=lambda: more.names("repeated", 1),
        kind="sentences with a repeated name",
        towards="the name's first copy",
        followed="the other name",
    ),
    Card(
        id="inhibition",
        after="8.1",
        group="Finding a name",
        head="20.0",
        sentence="name",
        query="to",
        shown="Anna",
        short="S-inhibition",
        name="S-inhibition head",
        see="At *to*, this head attends to the second **Tom**: {weight}. That is the name that should not come again.",
        more="It acts through the name mover, on the next card. Without 20.0, head 23.0 attends less to **Anna** "
        "({anna} to {less}) and more to the two **Tom**s ({toms} to {more}).",
        limits="It is not the only one, and the effect is small. Without 19.2, 20.0 and 20.8 together, "
        "**Anna** is still "
        "at {three}.",
        numbers={
            "weight": weight("20.0", NAME, "to", "Tom#2"),
            "anna": weight("23.0", NAME, "to", "Anna"),
            "less": weight("23.0", NAME, "to", "Anna", without="20.0"),
            "toms": weight("23.0", NAME, "to", "Tom", "Tom#2"),
            "more": weight("23.0", NAME, "to", "Tom", "Tom#2", without="20.0"),
            "three": then(NAME, "Anna", "19.2 20.0 20.8"),
        },
        paper=WANG,
        rows=lambda: more.names("to", 1),
        kind="sentences with a repeated name",
        towards="its second copy",
        followed="the other name",
    ),
    Card(
        id="mover",
        after="20.0",
        group="Finding a name",
        head="23.0",
        sentence="name",
        query="to",
        shown="Anna",
        short="Name mover",
        name="Name-mover head",
        see="At *to*, this head attends to **Anna**, the name that has been said only once, and raises it: {weight} of "
        "its attention.",
        more="This is the last step: 8.1 finds the repeated name, 20.0 steers away from it, 23.0 names the other.",
        limits="Other heads attend to **Anna** too. Without 22.7, 23.0, 23.1 and 23.7 together, **Anna** falls to "
        "{four}, and is still the most likely name.",
        numbers={"weight": weight("23.0", NAME, "to", "Anna"), "four": then(NAME, "Anna", "22.7 23.0 23.1 23.7")},
        holds=(
            lambda meter: (
                meter.next(NAME, "Anna", ["22.7", "23.0", "23.1", "23.7"])
                > max(meter.next(NAME, name, ["22.7", "23.0", "23.1", "23.7"]) for name in ("Tom", "Emma", "Alex"))
            ),
        ),
        paper=WANG,
        rows=more.names,
        kind="sentences with a repeated name",
        towards="the other name",
        followed="that name",
    ),
    Card(
        id="negative",
        group="Finding a name",
        head="24.4",
        sentence="name",
        query="to",
        shown="Anna",
        short="Negative mover",
        name="Negative name mover",
        see="One layer later, a stronger arc goes to the same **Anna**: {weight}. This head lowers the name it attends "
        "to.",
        more="Without 23.0 and 24.4 together, **Anna** is at {both}. The two heads partly cancel.",
        limits="It is not a fault. The paper found such heads in GPT-2 too; they may keep the model from "
        "being too sure. "
        "Why they exist is not settled.",
        numbers={"weight": weight("24.4", NAME, "to", "Anna"), "both": then(NAME, "Anna", "23.0 24.4")},
        paper=WANG,
        rows=more.names,
        kind="sentences with a repeated name",
        towards="the other name",
        followed="that name",
    ),
    Card(
        id="successor",
        missed=("successor", "where 0.90 is needed"),
        group="Knowledge",
        head="23.3",
        sentence="months",
        query=",#4",
        shown="May",
        short="Ruled out",
        name="Rules out what was listed",
        see="At the last comma, this head attends to **April** ({april}) and **March** ({march}), the months that have "
        "just been listed.",
        more="It lowers what it attends to: directly, it takes {april_logit:l} from the logit of **April** and "
        "{march_logit:l} from that of **March**. It adds {may_logit:l} to **May**. So **May** wins because the others "
        "are ruled out.",
        limits="It looks like a successor head, but a successor head adds most to the word that comes next. This one "
        "adds more to **July** ({july_logit:l}) than to **May**. The test for successor tells them apart.",
        numbers={
            "april": weight("23.3", MONTHS, ",#4", "April"),
            "march": weight("23.3", MONTHS, ",#4", "March"),
            **{f"{month.lower()}_logit": adds("23.3", MONTHS, month) for month in ("April", "March", "May", "July")},
        },
        holds=(
            lambda meter: adds("23.3", MONTHS, "April")(meter) < 0 < adds("23.3", MONTHS, "May")(meter),
            lambda meter: adds("23.3", MONTHS, "March")(meter) < 0,
            lambda meter: adds("23.3", MONTHS, "July")(meter) > adds("23.3", MONTHS, "May")(meter),
        ),
        paper=("Gould et al. (2023), Successor Heads", "https://arxiv.org/abs/2312.09230"),
        rows=more.orders,
        kind="lists in an order (months, days, ordinal numbers, seasons, letters)",
        towards="what has been listed",
        followed="the next one",
    ),
    Card(
        id="capital",
        missed=("", "No test asks for facts."),
        group="Knowledge",
        head="23.4",
        sentence="capital",
        query="is",
        shown="Berlin",
        short="A fact",
        name="A head for facts",
        see="At *is*, this head attends to **Germany**: {weight}. What it takes from there raises **Berlin**.",
        more="The same for other countries: **Paris** falls from {paris} to {paris2}, **Rome** from {rome} to {rome2}, "
        "**Tokyo** from {tokyo} to {tokyo2}.",
        limits="**Madrid** falls only from {madrid} to {madrid2}. After “The Colosseum is in the city of”, "
        "**Rome** stays "
        "at {city}. Where the fact is stored is another question.",
        numbers={
            "weight": weight("23.4", CAPITAL, "is", "Germany"),
            "city": then("The Colosseum is in the city of", "Rome", "23.4"),
            **{
                name.lower() + end: then(f"The capital of {country} is", name, off)
                for country, name in (("France", "Paris"), ("Italy", "Rome"), ("Japan", "Tokyo"), ("Spain", "Madrid"))
                for end, off in (("", ""), ("2", "23.4"))
            },
        },
        paper=("Geva et al. (2023), Dissecting Recall of Factual Associations", "https://arxiv.org/abs/2304.14767"),
        rows=more.capitals,
        kind="sentences about capitals",
        towards="the country",
        followed="the capital",
    ),
    Card(
        id="sink",
        group="Look twice",
        head="18.8",
        sentence="quiet",
        query="nobody",
        shown="was",
        short="Attention sink",
        name="Attention sink",
        see="Every arc ends at the first word. {resting:n} of the 270 heads give it more than half of their "
        "attention in "
        "this sentence.",
        more="Even without eight such heads together (17.3, 18.6, 18.7, 18.8, 20.3, 20.6, 23.2, 28.2) it is "
        "at {eight}.",
        limits="The induction head 18.6 is one of them: here, where nothing is repeated, it gives {induction} "
        "to the first "
        "word. The same head, another sentence.",
        numbers={
            "resting": resting,
            "eight": then(QUIET, "was", SINKS),
            "induction": lambda meter: float(meter.read(QUIET).patterns[meter.number("18.6"), 1:, 0].mean()),
        },
        paper=(
            "Xiao et al. (2023), Efficient Streaming Language Models with Attention Sinks",
            "https://arxiv.org/abs/2309.17453",
        ),
        rows=more.plain,
        kind="plain sentences",
        towards="the first word",
    ),
    Card(
        id="bracket",
        group="Look twice",
        head="26.6",
        sentence="bracket",
        query="nuts",
        shown=")",
        short="Clear arc",
        name="Clear arc, wrong guess",
        see="At *nuts*, this head attends to the open bracket: {weight}. It looks like the head that closes brackets.",
        more="It is not. Without it, the closing bracket is a little more likely.",
        limits="Switching one head off can hide what it does: others may take over. So we do not know what it "
        "takes from "
        "the bracket.",
        numbers={"weight": weight("26.6", BRACKET, "nuts", "(")},
        paper=("Jain and Wallace (2019), Attention is not Explanation", "https://arxiv.org/abs/1902.10186"),
        rows=more.brackets,
        kind="lists in an open bracket",
        towards="the bracket",
        followed="the closing bracket",
    ),
    Card(
        id="unnamed",
        group="Look twice",
        head="1.5",
        sentence="bracket",
        query="nuts",
        shown=")",
        short="No name",
        name="A head with no name",
        see="Its arcs go to **and** ({and_}), **a** ({a}), **wrote** ({wrote}), and many more. No rule comes to mind.",
        more="Yet of all 270 heads it changes this prediction most. In each of the eight sentences here it is "
        "among the "
        "eleven that do.",
        limits="It is in layer 1, and 28 layers read what it writes. Setting it to zero may disturb them all. A large "
        "effect is not yet a role.",
        numbers={
            "and_": weight("1.5", BRACKET, "nuts", "and"),
            "a": weight("1.5", BRACKET, "nuts", "a"),
            "wrote": weight("1.5", BRACKET, "nuts", "wrote"),
        },
        holds=(
            lambda meter: meter.rank(BRACKET, "1.5") == 1,
            lambda meter: all(meter.rank(text, "1.5") <= 11 for text, _ in SENTENCES.values()),
        ),
        paper=("How heads get a name", "#learn?lesson=4"),
        rows=more.plain,
        kind="plain sentences",
        towards="",
    ),
)
