"""Twenty more sentences for each card, written before they were measured: how general is what the card shows?

A row of a group is (text, query, keys, next words): the token the head attends from, the tokens it should attend to,
and the words whose probability changes. `word#2` is the second occurrence, `^` is the first token of the text.
"""

from __future__ import annotations

import random

Row = tuple[str, str, tuple[str, ...], tuple[str, ...]]

POOL = [
    "red",
    "seven",
    "lamp",
    "cloud",
    "fish",
    "stone",
    "green",
    "river",
    "door",
    "bread",
    "night",
    "horse",
    "paper",
    "silver",
    "garden",
    "milk",
    "winter",
    "bridge",
    "apple",
    "music",
    "table",
    "king",
    "salt",
    "window",
    "dog",
    "gold",
    "city",
    "blue",
    "chair",
    "rain",
]


def lists() -> list[Row]:
    """Lists of six random words that start again; the next word is the one that followed before."""
    draw, rows = random.Random(0), []
    for _ in range(20):
        words = draw.sample(POOL, 6)
        rows.append((" ".join(words + words[:5]), f"{words[4]}#2", (words[5],), (words[5],)))
    return rows


def previous() -> list[Row]:
    """The same lists, for a head that attends to the token before."""
    return [(text, query, (f"{text.split()[3]}#2",), words) for text, query, _, words in lists()]


NAMES = [
    "Anna",
    "Tom",
    "Mary",
    "John",
    "Lisa",
    "Mark",
    "Julia",
    "Peter",
    "Emma",
    "Paul",
    "Sarah",
    "David",
    "Laura",
    "James",
    "Kate",
    "Robert",
    "Alice",
    "Simon",
    "Ruth",
    "Frank",
]
SCENES = (
    "While {a} and {b} were working, {b} handed the letter to",
    "When {a} and {b} went to the store, {b} gave a drink to",
    "After {a} and {b} had a long talk, {b} wrote a letter to",
    "Then {a} and {b} came home, and {b} gave the keys to",
    "Because {a} and {b} had a party, {b} sent the invitation to",
)


def names(query: str = "to", key: int = 0) -> list[Row]:
    """A name that has been said once, and one that is repeated; the next word is the first."""
    draw, rows = random.Random(1), []
    for at in range(20):
        a, b = draw.sample(NAMES, 2)
        text = SCENES[at % len(SCENES)].format(a=a, b=b)
        asked = f"{b}#2" if query == "repeated" else f"to#{text.split().count('to')}"
        rows.append((text, asked, (a if key == 0 else b if query == "repeated" else f"{b}#2",), (a,)))
    return rows


IT = (
    ("The dog chased the cat until it was tired", "dog cat"),
    ("The car passed the bus because it was fast", "car bus"),
    ("The horse didn't jump the fence because it was too tired", "horse"),
    ("The bird left the tree when it heard a noise", "bird"),
    ("The boy dropped the glass and it broke", "glass"),
    ("The ship reached the island before it sank", "ship"),
    ("The letter was on the table but it was wet", "letter"),
    ("The cat sat by the window because it was hungry", "cat"),
    ("The robot stopped at the door because it was broken", "robot"),
    ("The girl opened the box but it was empty", "box"),
    ("The train left the station after it was cleaned", "train"),
    ("The king sold the castle because it was old", "castle"),
    ("The bear crossed the river when it was thirsty", "bear"),
    ("The man bought the house because it was cheap", "house"),
    ("The phone fell on the floor and it still worked", "phone"),
    ("The plant in the garden died because it was dry", "plant"),
    ("The lion watched the hunter until it fell asleep", "lion"),
    ("The book lay under the bed and it was dusty", "book"),
    ("The snake hid in the grass because it was afraid", "snake"),
    ("The child lost the ball because it was small", "ball"),
)


def it() -> list[Row]:
    """A pronoun, and what it can stand for."""
    return [(text, "it", tuple(found.split()), ()) for text, found in IT]


SUBJECTS = (
    ("keys", "to the old wooden cabinet"),
    ("books", "on the small table"),
    ("letters", "from my old friend"),
    ("windows", "of the white house"),
    ("children", "in the big garden"),
    ("doors", "to the dark room"),
    ("pictures", "of the young king"),
    ("flowers", "near the stone wall"),
    ("players", "on the other team"),
    ("boats", "behind the long bridge"),
    ("roads", "to the next city"),
    ("toys", "under the blue chair"),
    ("names", "on the first page"),
    ("stories", "about the brave girl"),
    ("walls", "around the old town"),
    ("lights", "in the empty kitchen"),
    ("birds", "above the quiet lake"),
    ("rooms", "behind the red curtain"),
    ("songs", "by the famous singer"),
    ("chairs", "beside the round table"),
)


def subjects() -> list[Row]:
    """A plural subject, and a singular noun just before the verb."""
    return [(f"The {noun} {rest}", rest.split()[-1], (noun,), ("is", "was")) for noun, rest in SUBJECTS]


MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"]
ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"]
SEASONS = ["spring", "summer", "autumn", "winter", "spring", "summer"]
ORDERS = ((MONTHS, (0, 1, 2, 3, 4, 5, 6, 7)), (DAYS, (0, 1, 2, 3, 4, 5)), (ORDINALS, (0, 1, 2)), (SEASONS, (0, 1)))


def orders() -> list[Row]:
    """Months, days, ordinal numbers and seasons in their order; and the next one."""
    rows: list[Row] = []
    for words, starts in ORDERS:
        size = 3 if words is SEASONS else 4
        for start in starts:
            some = words[start : start + size]
            rows.append((", ".join(some) + ",", f",#{size}", tuple(some), (words[start + size],)))
    return [*rows, ("A, B, C, D,", ",#4", ("A", "B", "C", "D"), ("E",))]


CAPITALS = (
    "Germany Berlin;France Paris;Italy Rome;Japan Tokyo;Spain Madrid;England London;Russia Moscow;China Beijing;"
    "Egypt Cairo;Greece Athens;Austria Vienna;Portugal Lisbon;Poland Warsaw;Sweden Stockholm;Ireland Dublin;"
    "Turkey Ankara;Cuba Havana;Canada Ottawa;Hungary Budapest;Norway Oslo"
)


def capitals() -> list[Row]:
    """Twenty countries and their capitals."""
    pairs = [pair.split() for pair in CAPITALS.split(";")]
    return [(f"The capital of {country} is", "is", (country,), (city,)) for country, city in pairs]


PLAIN = (
    "The old house at the end of the street was quiet that night, and nobody",
    "She opened the letter and read it slowly",
    "In the morning the children walked to school",
    "He had never seen so many birds in one place",
    "The doctor told him to rest for a week",
    "Water boils at a lower temperature in the mountains",
    "After the meeting we went to a small cafe",
    "My sister bought a new car last week",
    "The river was wide and the bridge was closed",
    "They painted the walls of the kitchen yellow",
    "A good teacher listens before she speaks",
    "The train to the city leaves at nine",
    "Nobody knew where the music came from",
    "He put his coat on a chair and sat down",
    "The museum opens its doors to everyone on Sunday",
    "It rained for three days without a break",
    "The farmer sold his last horse in the spring",
    "You can see the stars from the roof",
    "The company plans to build a new factory",
    "When the lights went out, the audience laughed",
)


def plain() -> list[Row]:
    """Twenty plain sentences."""
    return [(text, "$", ("^",), ()) for text in PLAIN]


BRACKETS = (
    "She wrote a list (apples, pears, plums and nuts",
    "He packed his things (a coat, two shirts and a hat",
    "They visited three cities (Rome, Paris and Vienna",
    "The soup needs herbs (parsley, thyme and sage",
    "We saw many animals (lions, bears and wolves",
    "The band has four members (two brothers and two friends",
    "Bring your tools (a hammer, a saw and some nails",
    "The garden has flowers (roses, tulips and lilies",
    "The class reads old books (novels, plays and poems",
    "He speaks some languages (Spanish, French and Greek",
    "The shop sells toys (dolls, balls and trains",
    "I like cold colours (blue, green and grey",
    "The kitchen is small (a table, a stove and a sink",
    "She plays two instruments (the piano and the violin",
    "The team won all games (three at home and four away",
    "The box holds cards (red, white and black",
    "Our family is large (five sons and three daughters",
    "The trip was long (two days by bus and one by boat",
    "He studied the planets (Mars, Venus and Saturn",
    "The house is old (built by a farmer and his wife",
)


def brackets() -> list[Row]:
    """Twenty open brackets; the next token closes them."""
    return [(text, "$", ("(",), (")",)) for text in BRACKETS]
