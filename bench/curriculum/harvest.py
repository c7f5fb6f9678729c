"""What novels have to offer to generated text: deeds of one person to another, what people did together, and nouns.

"She drew her hands away from him" becomes a frame with slots for two names. Frames written by hand are soon learned by
heart; novels have thousands of others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass

ENDS = re.compile(r"(?<=[.!?]) (?=[A-Z])|[;:\"“”]|--+")
INNER_ENDS = re.compile(r"[.;:!?\"“”()]|--+|, (?=(?:and|but|or|as|for|while|when|who|which|that|if|because|so)\b)")
SUBJECT = re.compile(r"\b(she|he)\b", re.IGNORECASE)
AFTER_OBJECT = r"""(?=[.,!?]|\s(?:in|on|at|with|by|for|from|to|of|and|but|as|that|again|now|then|so|away|down|up|out|
    into|over|when|while|if|because|before|after|about|alone|too|back|off|through|under|upon|all|once|without|the|a)\b)"""
OBJECT = re.compile(rf"\b(?:(him)\b|(her)\b{AFTER_OBJECT})", re.IGNORECASE | re.VERBOSE)
HIS, HER = re.compile(r"\b(?:his|himself)\b"), re.compile(r"\b(?:her|hers|herself)\b")
OTHERS = re.compile(
    r"\b(?:I|me|my|mine|we|us|our|you|your|thou|thee|thy|they|them|their|one|who|whom)\b", re.IGNORECASE
)
CAPITAL = re.compile(r"\b[A-Z]")
ODD = re.compile(r"[^A-Za-z ,.!?'-]|' |^'")
WORD = re.compile(r"\b[a-z]+\b")
NOUN = re.compile(r"\b(?:a|an|the|his|her) ([a-z]{3,9})(?=[.,;]| (?:of|in|on|at|with|and|to|from)\b)")
SHORTEST, LONGEST = 18, 170
NOUNS, LEAST_SAID = 1_200, 12


@dataclass(frozen=True)
class Deed:
    """A sentence with slots ``{a}`` and ``{b}``, and the genders that its other pronouns need, or ``?``."""

    told: str
    genders: str


@dataclass(frozen=True)
class Harvest:
    """Deeds, what two people did together (with a slot ``{both}``), and nouns of novels."""

    deeds: tuple[Deed, ...] = ()
    together: tuple[str, ...] = ()
    nouns: tuple[str, ...] = ()

    def part(self, k: int, n: int) -> Harvest:
        return Harvest(self.deeds[k::n], self.together[k::n], self.nouns)


def harvest(texts: Iterable[str], processes: Executor) -> Harvest:
    """All deeds of these texts, each once, in the order of the texts."""
    found = list(processes.map(_harvested, texts))
    deeds = dict.fromkeys(deed for each, _, _ in found for deed in each)
    together = dict.fromkeys(told for _, each, _ in found for told in each)
    counts = sum((each for _, _, each in found), Counter[str]())
    nouns = [noun for noun, n in counts.most_common() if n >= LEAST_SAID]
    return Harvest(tuple(deeds), tuple(together), tuple(nouns[:NOUNS]))


def _harvested(text: str) -> tuple[list[Deed], list[str], Counter[str]]:
    deeds, together = [], []
    common = set(WORD.findall(text))
    for clause in clauses(text):
        if WORD.findall(clause.lower())[0] not in common:  # begins with a name
            continue
        if clause.startswith("They ") and not SUBJECT.search(clause) and not OBJECT.search(clause):
            together += [f"{{both}}{clause[4:]}"] * (OTHERS.search(clause, 4) is None)
        elif OTHERS.search(clause) is None and (deed := deed_of(clause)):
            deeds.append(deed)
    deeds += [deed for clause in inner_clauses(text) if (deed := deed_of(clause))]
    return deeds, together, Counter(NOUN.findall(text))


def clauses(text: str) -> Iterator[str]:
    """Sentences, and parts of them between stronger stops, that name nobody."""
    for part in ENDS.split(text.replace("\n", " ")):
        clause = part.strip(" ,-")
        if SHORTEST <= len(clause) <= LONGEST and not ODD.search(clause) and not CAPITAL.search(clause, 1):
            yield clause if clause[-1] in ".!?" else f"{clause}."


def inner_clauses(text: str) -> Iterator[str]:
    """What stands inside of sentences, from the one who does something to the next stop."""
    for part in INNER_ENDS.split(text.replace("\n", " ")):
        if OBJECT.search(part) and (who := SUBJECT.search(part)):
            clause = part[who.start() :].strip(" ,-")
            refused = ODD.search(clause) or CAPITAL.search(clause, 1) or OTHERS.search(clause)
            if SHORTEST <= len(clause) <= LONGEST and not refused:
                yield f"{clause[0].upper()}{clause[1:]}."


def deed_of(clause: str) -> Deed | None:
    """The clause with slots, if it has one who does something and one behind who is not the same word again."""
    subjects, objects = list(SUBJECT.finditer(clause)), list(OBJECT.finditer(clause))
    if len(subjects) != 1 or len(objects) != 1 or subjects[0].end() > objects[0].start():
        return None
    (who,), (whom,) = subjects, objects
    told = f"{clause[: who.start()]}{{a}}{clause[who.end() : whom.start()]}{{b}}{clause[whom.end() :]}"
    own = "w" if who[0].lower() == "she" else "m", "w" if whom[2] else "m"
    left = {"m": HIS.search(told) is not None, "w": HER.search(told) is not None}
    if any(is_left and gender not in own for gender, is_left in left.items()):
        return None
    first = own[0] if left[own[0]] else "?"
    return Deed(told, first + (own[1] if own[1] != own[0] and left[own[1]] else "?"))
