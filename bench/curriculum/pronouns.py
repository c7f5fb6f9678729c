"""Pronouns: gender and number choose between two candidates, and what follows depends on the choice."""

from __future__ import annotations

from bench.curriculum.passage import World, a, answer, prose, sentence
from bench.curriculum.people import Person
from bench.curriculum.scenes import gap
from bench.curriculum.weave import sentences
from bench.curriculum.words import ADJECTIVES, LEADS, PLACES, STATURES, THINGS, TRADES, VERBS

from headscope.heads.roles.probes.grammar import split_words

HAD = split_words("""
    had carried owned wanted held sold mended painted found lost broke bought hid borrowed stole wore cleaned fetched
    opened closed kept dropped praised described admired despised needed chose refused packed unpacked moved lifted
    inherited collected polished drew copied studied examined counted measured guarded received expected forgot
    remembered mentioned missed liked loved hated feared burned repaired emptied filled washed touched pulled pushed
    brought took earned won chased fed hired tried tested
""")
ABOUT = split_words("""
    dreamed~of came~for looked~for paid~for asked~for talked~about knew~about wrote~about thought~of laughed~at
    cared~for looked~after worked~on pointed~at sat~beside stood~by waited~for complained~of wondered~about lived~with
    was~proud~of was~afraid~of was~fond~of was~tired~of was~in~charge~of was~given was~shown was~promised was~known~for
    was~left~with was~busy~with had~come~for had~heard~of had~to~guard had~to~carry would~have~liked could~only~think~of
""")
DO = split_words("""
    sell hide wash paint mend keep throw~away give~back look~at speak~of pick~up put~down put~away carry~home part~with
    ask~for show~us hold~up break count burn clean fetch open close pack move lift draw polish study describe praise
    miss love hate try forget remember defend wrap~up lock~up point~to think~of play~with sit~down~by walk~round run~for
    go~back~for start~with
""")
ALOUD = (
    "{he} will {do} the",
    "{he} would {do} the",
    "{he} wanted to {do} the",
    "{he} had to {do} the",
    "{he} could not {do} the",
    "{he} never failed to {do} the",
    "{he} is going to {do} the",
    "{he} may {do} the",
    "let {him} {do} the",
    "make {him} {do} the",
    "nobody but {him} may {do} the",
    "it was {he} who used to {do} the",
    "the child saw {him} {do} the",
    "we heard {him} {do} the",
    "what {he} did was to {do} the",
    "ask {him} to {do} the",
    "they told {him} to {do} the",
)
BEFORE = (
    "when {he} came in,",
    "since {he} was late,",
    "because {he} was tired,",
    "as {he} did not answer,",
    "after {he} had gone,",
    "before {he} could speak,",
    "if {he} agrees,",
    "although {he} said nothing,",
    "while {he} slept,",
    "thanks to {him},",
    "without {him},",
    "as soon as {he} sat down,",
    "for {his} sake",
    "in {his} room",
    "at {his} house",
    "on {his} birthday",
    "with {his} help",
    "in front of {him}",
    "once {he} had eaten,",
    "unless {he} minds,",
    "to please {him}",
    "whenever {he} laughed,",
    "until {he} comes back,",
    "from {his} window",
)
BEHIND = (
    "we {did} the",
    "they {did} the",
    "everybody {did} the",
    "nobody {did} the",
    "the children {did} the",
    "the neighbours {did} the",
    "I {did} the",
    "somebody {did} the",
    "we can {do} the",
    "you should {do} the",
    "I want to {do} the",
    "people came to {do} the",
    "it was time to {do} the",
    "there was nothing left but the",
    "there stood the",
    "on the table lay the",
    "all was quiet but for the",
    "the talk was of the",
)
THEN = (
    "what {he} liked was the",
    "nothing pleased {him} like the",
    "everybody admired {his}",
    "it was {he} who had the",
    "{his} heart was with the",
    "{his} only treasure was the",
    "there was nothing that {he} valued more than the",
    "{he} alone had a right to the",
    "ask {him} about the",
    "{he} came back with the",
    "{his} hand lay on the",
    "{he} went on and on about the",
    "tell {him} that we have seen the",
)


def described(world: World, person: Person) -> str:
    """A name; sometimes with a noun that tells the gender."""
    trade = world.pick(TRADES)
    if world.maybe(0.3):
        relation = "mother aunt niece" if person.gender == "w" else "father uncle nephew"
        return f"{person.name}, the {trade}'s {world.pick(relation.split())},"
    return f"{person.name}, {a(world.pick(STATURES))} {person.kind}," if world.maybe(0.1) else person.name


def nouns(world: World, n: int) -> list[str]:
    """Things: of the list, or any nouns of novels."""
    open_list = world.harvest.nouns
    return world.some(open_list, n) if open_list and world.maybe(0.5) else world.some(THINGS, n)


def held(world: World) -> str:
    """What somebody has to do with a thing."""
    return world.pick(HAD) if world.maybe(0.6) else world.pick(ABOUT).replace("~", " ")


def about_whose(world: World, person: Person, item: str) -> str:
    """A pronoun, and what belongs to the one whom it means."""
    do, did = world.pick(DO).replace("~", " "), world.pick(HAD)
    kind = world.draw.random()
    if kind < 0.35:
        told = world.pick(ALOUD)
    elif kind < 0.5:
        told = world.pick(THEN)
    elif kind < 0.7:
        told = f"{{he}} {held(world)} the"
    else:
        told = f"{world.pick(BEFORE)} {world.pick(BEHIND)}"
    words = {"he": person.he, "him": person.him, "his": person.his, "do": do, "did": did}
    return f"{told.format(**words)} {answer(item)}"


def belongings(world: World) -> str:
    """Two people of different gender with a thing each; a pronoun says whose is meant."""
    people = world.people(2, world.pick(("wm", "mw")))
    things = nouns(world, 2)
    one = held(world)
    verbs = (one, one if world.maybe(0.6) else held(world))
    article = world.pick(("a", "the"))
    more = world.pick(
        ("", "", "", f" {world.pick(LEADS)}", f" from the {world.pick(PLACES)}", " of the house", " long ago")
    )
    told = [
        f"{described(world, person)} {verb} {a(item) if article == 'a' else 'the ' + item}{more * (number == 0)}"
        for number, (person, verb, item) in enumerate(zip(people, verbs, things, strict=True))
    ]
    joint = world.pick((", and ", " and ", ", ", ". ", ", but ", "; ", ". Meanwhile ", ", while "))
    parts = [joint.join(sentence(each) if "." in joint and number else each for number, each in enumerate(told))]
    parts += [gap(world, people) for _ in range(world.pick((0, 0, 1)))]
    for index in world.some((0, 1), world.pick((1, 2))):
        said = about_whose(world, people[index], things[index])
        parts.append(f"{world.pick(LEADS)} {said}" if world.maybe(0.4) else world.told(said, 0.25))
    return prose(parts)


def who(world: World) -> str:
    """A pronoun, and the name it stands for."""
    people = world.people(2, world.pick(("wm", "mw")))
    one = world.pick(people)
    place, (verb, base, _, _) = world.pick(PLACES), world.pick(VERBS)
    first, second = (described(world, person) for person in people)
    begin = world.pick(
        (
            f"{first} and {second} were at the {place}",
            f"{first} argued with {second} about the {place}",
            f"{first} {world.pick(('trusted', 'feared', 'admired', 'avoided', 'knew'))} {second}",
            f"{first} came from the {place}, and so did {second}",
            f"the {place} was shown to {first} by {second}",
        )
    )
    end = world.pick(
        (
            f"{one.he} {verb}, and so everyone looked at {answer(one.name)}",
            f"somebody heard {one.him} {base}: it was {answer(one.name)}",
            f"{one.he} {verb} first. That is to say, {answer(one.name)} {verb}",
            f"{one.he} {verb}; yes, {answer(one.name)} did",
            f'"{sentence(one.he)} {verb}," said the child, and meant {answer(one.name)}',
            f"{one.his} name was {answer(one.name)}",
        )
    )
    return prose((begin, *[gap(world, people)] * world.maybe(0.4), end))


def number(world: World) -> str:
    """One against many: he or she, they, it."""
    person = world.people(1)[0]
    trade, item = world.pick(TRADES), world.pick(THINGS)
    verb, _, _, _ = world.pick(VERBS)
    many = world.maybe(0.5)
    if world.maybe(0.5):
        begin = f"{person.name} met the {trade}s at the {world.pick(PLACES)}"
        end = f"{'they' if many else person.he} {verb}, all of them" if many else f"{person.he} {verb} alone"
        asked = f"who {verb}? The {answer(trade + 's')}" if many else f"who {verb}? {answer(person.name)}"
        return f"{begin}. {sentence(end)}. {sentence(asked)}."
    begin = (
        f"{person.name} took the {item}s out of the box" if many else f"{person.name} took the {item} out of the box"
    )
    end = f"{answer('they' if many else 'it')} {'were' if many else 'was'} {world.pick(ADJECTIVES)}"
    own = f"{person.name} hurt {answer('herself' if person.gender == 'w' else 'himself')}"
    return prose((begin, world.pick((end, own))))


def document(world: World) -> str:
    """A few of these, half of the time behind sentences of a novel."""
    before = sentences(world)[:3] if world.hay and world.maybe(0.5) else []
    kinds = (belongings, belongings, belongings, who, number)
    return " ".join([*before, *(world.pick(kinds)(world) for _ in range(world.draw.randint(1, 4)))])
