"""What one person does to another, as frames that end in the other's name: some hundred verbs, composed."""

from __future__ import annotations

from headscope.heads.roles.probes.grammar import split_words

WITH_A_THING = (
    "took {thing} away from",
    "borrowed {thing} from",
    "hid {thing} from",
    "held {thing} out to",
    "wanted to share {thing} with",
    "owed {thing} to",
    "wrapped {thing} in paper and {gave} it to",
    "put {thing} down in front of",
    "found {thing} and kept it for",
    "threw {thing} after",
    "left {thing} behind for",
    "had brought {thing} for",
    "chose {thing} for",
    "mended {thing} for",
    "drew {thing} for",
    "fetched {thing} and laid it before",
    "bought {thing} from",
    "stole {thing} from",
    "got {thing} from",
    "exchanged {thing} for another with",
    "described {thing} to",
    "pointed out {thing} to",
    "quarrelled about {thing} with",
    "won {thing} from",
    "polished {thing} for",
    "carried {thing} upstairs for",
    "asked for {thing} and got it from",
    "tied {thing} to a string for",
    "broke {thing} in two and kept a half for",
    "shouted something about {thing} to",
)
TOWARDS = (
    "explained everything to",
    "told the whole story to",
    "sat down beside",
    "went for a walk with",
    "made room for",
    "apologised to",
    "asked a favour of",
    "shook hands with",
    "drank to the health of",
    "could not stop laughing at",
    "turned round and looked at",
    "had a message for",
    "waited for",
    "smiled at",
    "nodded to",
    "bowed to",
    "winked at",
    "shouted at",
    "ran after",
    "stood behind",
    "played chess with",
    "argued with",
    "agreed with",
    "dined with",
    "travelled with",
    "walked home with",
    "sang a song for",
    "opened the door to",
    "hid behind",
    "looked for",
    "relied on",
    "was jealous of",
    "was afraid of",
    "was fond of",
    "was proud of",
    "had heard much about",
    "had dreamed of",
    "learned a good deal from",
    "felt sorry for",
    "lay awake and thought of",
    "rowed across the lake with",
    "signed the paper after",
    "arrived long before",
    "meant no harm to",
    "swore revenge on",
    "sent a telegram to",
    "read the news aloud to",
    "rode in front of",
    "kept close to",
    "lied to",
    "fell in love with",
    "took the blame for",
    "spoke up for",
    "raised a glass to",
)
UPON = split_words("""
    thanked praised scolded watched followed greeted teased warned helped envied missed trusted doubted embraced forgave
    nudged interrupted consulted overtook recognised admired feared avoided kissed cursed obeyed outwitted imitated
    painted photographed invited fed dressed woke nursed mocked comforted caught chased pushed tickled hired dismissed
    married pitied understood disliked ignored remembered
""")
WITH_MORE_BEHIND = (
    "paid {r} for {thing}",
    "{gave} {r} {thing}",
    "taught {r} a song",
    "did not believe {r}",
    "asked {r} a question",
    "took {r} by the arm",
    "called {r} a fool",
    "showed {r} the way",
    "left {r} alone",
    "could hardly see {r}",
)
PLAINLY = ("{gave} {thing} to", "{gave} {thing} over to", "bought {thing} for", "{gave} it to")
TO_THE_OTHER = tuple(
    f"{{g}} {act}"
    for act in (
        *(f"{plain} {{r}}" for plain in PLAINLY * 6),
        *(f"{act} {{r}}" for act in (*WITH_A_THING, *TOWARDS, *UPON)),
        *WITH_MORE_BEHIND,
    )
)
