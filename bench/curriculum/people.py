"""People of generated texts: names from a list, from novels and invented, with gender where a pronoun needs it."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bench.curriculum.held_out import NAMES as HELD_OUT

from headscope.heads.roles.probes.grammar import split_words

WOMEN = split_words("""
    Margaret Elizabeth Grace Ellen Fanny Charlotte Harriet Agnes Isabel Martha Hilda Ruth Edith Flora Ida Nora
    Olga Vera Wanda Bertha Cora Della Elsa Frieda Greta Hester Irma Judith Lydia Mabel Nell Olive Phoebe Rachel
    Sybil Thea Ursula Viola Winifred Zelda Beatrice Cecily Dora Esther Hannah Janet Leah Maud Naomi Paula Rhoda
    Stella
""")
MEN = split_words("""
    Arthur Philip Walter Harry Richard Stephen Michael Joseph Frederick Albert Oscar Ralph Samuel Victor Hugh
    Edgar Felix Gilbert Hector Isaac Jasper Kenneth Leonard Martin Nathan Oliver Percy Quentin Roland Silas
    Theodore Ulric Vincent Warren Abel Basil Cyril Dennis Ernest Gregory Herbert Ivan Jonas Lionel Magnus Noel
    Otto Patrick Rufus Tobias
""")
ONSETS = split_words("b br c ch cl d dr f fl g gr h j k l m n p pr qu r s sh st t th tr v w z")
VOWELS = split_words("a e i o u ai ea ee ia io ou")
CODAS = ["", "l", "m", "n", "r", "s", "t", "nd", "rn", "ck", "ld", "x"]
ENDINGS = {"w": ("a", "ia", "ella", "ine", "wen", "eth"), "m": ("o", "us", "ard", "ric", "on", "or")}
CAPITALISED = re.compile(r"(?<=[a-z,;] )(?:(Mr|Mrs|Miss|Lady|Sir)\.? )?([A-Z][a-z]{2,9})\b")
PRONOUN = re.compile(r"\b(he|his|him|she|her)\b")
NEAR, TITLE, LEAST_SAID = 70, 5, 6  # characters in which a pronoun counts, the weight of a title, what is enough
NO_NAMES = set(
    split_words("""
    The And But For You She His Her They This That What When There Here Mrs Miss Sir Lady Lord God Heaven
    English French London England Paris Monday Tuesday Wednesday Thursday Friday Saturday Sunday January
    February March April May June July August September October November December Christmas Captain Doctor Uncle
    Aunt Cousin Madame Monsieur Street Square Church Bible Latin German Roman Greek Christian Indian American
    Europe France India Rome Queen King Prince Duke Colonel Major Squire Parliament House Hall Court Park Road
    Lane Bridge Yes Not How Who Why Then Now One Two Three Well Let Come Good Its Our Your Their Are Was Were
    Will Would Can Could All Some Every Dear Old New Great Sunday Easter
""")
)

ANY_WORD = 0.5  # of people whose gender does not matter have a word for a name that is none
COMMON = 100, 5_000  # the ranks of words that stand for names; the first ones are words of grammar
NO_ENDINGS = ("ish", "ese", "ian", "ians")  # peoples and languages


@dataclass(frozen=True)
class Person:
    """A name and its pronouns; ``kind`` is a noun that tells the gender."""

    name: str
    gender: str

    @property
    def he(self) -> str:
        return "she" if self.gender == "w" else "he"

    @property
    def him(self) -> str:
        return "her" if self.gender == "w" else "him"

    @property
    def his(self) -> str:
        return "her" if self.gender == "w" else "his"

    @property
    def kind(self) -> str:
        return "woman" if self.gender == "w" else "man"


@dataclass(frozen=True)
class NamePool:
    """Names to draw from: ``found`` in novels with their gender, ``others`` any capital words, ``words`` any others."""

    found: Sequence[tuple[str, str]] = field(default=(), repr=False)
    others: Sequence[str] = field(default=(), repr=False)
    words: Sequence[str] = field(default=(), repr=False)

    def person(self, draw: random.Random, gender: str) -> Person:
        """A person of this gender; ``?`` leaves it open."""
        if gender == "?" and self.others and draw.random() < ANY_WORD:
            return Person(draw.choice(self.others), draw.choice("wm"))
        gender = draw.choice("wm") if gender == "?" else gender
        source = draw.random()
        if self.found and source < 0.6:
            fitting = [name for name, said in draw.sample(self.found, min(12, len(self.found))) if said == gender]
            if fitting:
                return Person(fitting[0], gender)
        if source < 0.75:
            return Person(draw.choice(WOMEN if gender == "w" else MEN), gender)
        return Person(invented(draw, gender), gender)

    def people(self, draw: random.Random, n: int, genders: str = "") -> list[Person]:
        """Different people, none of them with a name that begins like another's."""
        people: list[Person] = []
        while len(people) < n:
            person = self.person(draw, genders[len(people)] if genders else "?")
            if person.name not in HELD_OUT and all(person.name[:3] != other.name[:3] for other in people):
                people.append(person)
        return people


def invented(draw: random.Random, gender: str) -> str:
    """A name of one to three syllables whose ending tells the gender."""
    syllables = [draw.choice(ONSETS) + draw.choice(VOWELS) for _ in range(draw.choice((0, 1, 1)))]
    stem = "".join(syllables) + draw.choice(ONSETS) + draw.choice(VOWELS[:5]) + draw.choice(CODAS)
    return (stem + draw.choice(ENDINGS[gender])).capitalize()


def pool_of(texts: Iterable[str], most: int = 1500) -> NamePool:
    """Common words with a capital inside sentences: those whose titles and pronouns agree on a gender, and others."""
    counts: Counter[str] = Counter()
    common: Counter[str] = Counter()
    genders: dict[str, Counter[str]] = {}
    for text in texts:
        common.update(re.findall(r"\b[a-z]{3,10}\b", text))
        for found in CAPITALISED.finditer(text):
            title, name = found.groups()
            counts[name] += 1
            said = PRONOUN.search(text, found.end(), found.end() + NEAR)
            if title:
                genders.setdefault(name, Counter())["m" if title in ("Mr", "Sir") else "w"] += TITLE
            elif said:
                genders.setdefault(name, Counter())["w" if said[1] in ("she", "her") else "m"] += 1
    common_words = [name for name, n in counts.most_common(most * 3) if n >= 5 and name not in HELD_OUT]
    kept = [
        name
        for name in common_words[: most * 2]
        if common[name.lower()] < counts[name] and name not in NO_NAMES and not name.endswith(NO_ENDINGS)
    ]
    known = [(name, _gender(genders.get(name, Counter()))) for name in kept]
    found = [(name, gender) for name, gender in known if gender][:most]
    words = tuple(word for word, _ in common.most_common(COMMON[1])[COMMON[0] :])
    return NamePool(found, sorted(set(common_words) - {name for name, _ in found}), words)


def _gender(said: Counter[str]) -> str:
    """The gender that three quarters of titles and pronouns have; none if there are few."""
    (best, n), total = (said.most_common(1) or [("", 0)])[0], said.total()
    return best if total >= LEAST_SAID and n > 0.75 * total else ""
