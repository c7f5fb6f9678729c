"""Words of generated texts."""

from __future__ import annotations

from headscope.heads.roles.probes.grammar import split_words

THINGS = split_words("""
    book letter ring watch glass picture chair knife box key cup flower drink map stone
    lantern kettle rope basket saddle trumpet mirror blanket hammer candle bucket ladder compass needle feather
    whistle bottle barrel drum violin shovel bridle goblet ribbon scarf helmet spoon pitcher saucer brush button
    buckle chain anchor oar sail kite marble puzzle ticket parcel envelope telescope almanac ledger pencil
    inkwell stamp coin purse wallet satchel trunk crate jug vase teapot plate bowl tray napkin cushion quilt
    carpet curtain broom rake spade axe saw chisel nail hinge bolt wheel axle wagon cart sledge cradle rattle
    doll top whip spur lance shield banner flag medal crown brooch bracelet necklace thimble loom spindle bobbin
    harp flute fiddle bugle bell gong lute pear plum peach lemon melon cherry onion turnip carrot cabbage loaf
    pie cake tart biscuit pudding cheese sausage ham goose hen lamb kitten puppy pigeon parrot beetle shell
    pebble crystal fossil acorn chestnut rose tulip lily daisy fern ivy wreath bonnet apron shawl glove boot
    slipper sandal jacket vest cloak sash umbrella cane pipe snuffbox
""")
ADJECTIVES = split_words("""
    red blue green black white brown gold
    tall brass wooden copper yellow purple crooked broken polished dusty narrow wide round square striped
    spotted painted rusty shiny tiny huge wet dry cold warm sharp blunt soft rough smooth thick thin light plain
    ornate ancient spare cheap costly foreign borrowed stolen mended cracked hollow solid faded bright dull grey
    pink orange scarlet violet amber ivory leather woollen velvet linen tin clay marble oak pine maple
""")
PLACES = split_words("""
    hotel shop ship farm palace club train village store school park office hospital house garden station
    mill harbour orchard bakery market stable cellar attic chapel lighthouse quarry ferry tavern forge meadow
    vineyard brewery bridge canal wharf theatre museum library square fountain tower courtyard cottage barn hut
    cave island beach cliff valley forest clearing marsh moor crossroads gate railway platform depot warehouse
    workshop studio laboratory hall ballroom parlour pantry nursery laundry greenhouse conservatory pavilion
    terrace balcony corridor staircase circus fair regatta camp fort castle abbey convent cathedral academy
    college tribunal prison embassy bank exchange bazaar arcade
""")
TRADES = split_words("""
    baker weaver carpenter miller smith cooper tailor cobbler mason potter painter sculptor printer clerk porter
    coachman groom gardener shepherd hunter fisherman pilot diver engineer surveyor mapmaker jeweller banker
    grocer butcher brewer innkeeper cook waiter butler governess tutor scholar poet singer dancer actor juggler
    acrobat musician judge sheriff constable jailer bishop monk abbot pilgrim beggar peddler merchant smuggler
    admiral corporal sergeant general ambassador governor mayor chemist surgeon midwife dentist astronomer
    botanist
""")
VERBS = [  # past, base, third person, participle: what one person does alone
    ("whistled", "whistle", "whistles", "whistled"),
    ("yawned", "yawn", "yawns", "yawned"),
    ("bowed", "bow", "bows", "bowed"),
    ("shivered", "shiver", "shivers", "shivered"),
    ("sneezed", "sneeze", "sneezes", "sneezed"),
    ("hummed", "hum", "hums", "hummed"),
    ("nodded", "nod", "nods", "nodded"),
    ("sighed", "sigh", "sighs", "sighed"),
    ("stumbled", "stumble", "stumbles", "stumbled"),
    ("knelt", "kneel", "kneels", "knelt"),
    ("shouted", "shout", "shouts", "shouted"),
    ("argued", "argue", "argues", "argued"),
    ("rested", "rest", "rests", "rested"),
    ("wept", "weep", "weeps", "wept"),
    ("blushed", "blush", "blushes", "blushed"),
    ("trembled", "tremble", "trembles", "trembled"),
    ("listened", "listen", "listens", "listened"),
    ("travelled", "travel", "travels", "travelled"),
    ("hesitated", "hesitate", "hesitates", "hesitated"),
    ("fainted", "faint", "faints", "fainted"),
    ("swam", "swim", "swims", "swum"),
    ("fished", "fish", "fishes", "fished"),
    ("painted", "paint", "paints", "painted"),
    ("vanished", "vanish", "vanishes", "vanished"),
]
GIVING = split_words("""
    handed passed offered lent sold sent brought carried returned threw slid presented entrusted tossed
    delivered showed promised gave
""")
MEETING = split_words("met found noticed joined visited followed greeted surprised passed recognised overtook")
ADVERBS = split_words("""
    then later afterwards next soon presently meanwhile finally eventually yesterday today tonight now suddenly
    quietly politely reluctantly gladly slowly quickly gently solemnly
""")
LEADS = (
    *ADVERBS,
    "after a while",
    "a moment later",
    "without a word",
    "in the end",
    "before long",
    "that same evening",
    "at last",
    "the next morning",
    "when the rain had stopped",
    "as the clock struck",
    "to everybody's surprise",
    "as promised",
    "with a smile",
    "after some thought",
    "on the way back",
    "at the second attempt",
    "once more",
    "for the last time",
    "when nobody was looking",
    "as soon as it grew dark",
    "half an hour later",
    "out of kindness",
    "by mistake",
)
WEATHER = [
    "The wind had dropped",
    "Rain was falling on the roofs",
    "The sun stood high",
    "Fog lay over everything",
    "A dog barked somewhere",
    "Nobody else was about",
    "The clock on the wall had stopped",
    "It smelled of hay and tar",
    "The lamps had just been lit",
    "Snow lay along the walls",
    "Two gulls were quarrelling overhead",
    "The road was full of carts",
    "Far off a bell was ringing",
    "The shutters were closed",
    "A fire burned in the grate",
    "The water was as still as glass",
    "Dust hung in the light",
    "The last coach had left",
    "Music came from across the way",
    "The tide was going out",
    "Bees hummed in the hedge",
    "The day had been long",
    "Somebody had left a window open",
]
PERSONAL = [
    ("awake", "asleep"),
    ("clean", "dirty"),
    ("alive", "dead"),
    ("early", "late"),
    ("loud", "quiet"),
    ("strong", "weak"),
    ("brave", "timid"),
    ("honest", "false"),
    ("cheerful", "gloomy"),
    ("guilty", "innocent"),
    ("rude", "polite"),
    ("idle", "busy"),
    ("married", "single"),
    ("sober", "drunk"),
    ("calm", "nervous"),
    ("kind", "cruel"),
    ("wise", "foolish"),
    ("present", "absent"),
    ("generous", "stingy"),
    ("patient", "hasty"),
    ("modest", "vain"),
    ("healthy", "sick"),
]
OF_PLACES = [
    ("open", "shut"),
    ("full", "empty"),
    ("near", "far"),
    ("safe", "dangerous"),
    ("bright", "dark"),
    ("noisy", "silent"),
    ("locked", "unlocked"),
    ("public", "private"),
    ("famous", "unknown"),
    ("guarded", "deserted"),
    ("warm", "cold"),
]
OF_THINGS = [
    ("hot", "cold"),
    ("wet", "dry"),
    ("clean", "dirty"),
    ("heavy", "light"),
    ("sharp", "blunt"),
    ("cheap", "costly"),
    ("whole", "broken"),
    ("real", "false"),
    ("lost", "found"),
    ("used", "unused"),
    ("soft", "hard"),
    ("rare", "common"),
]
STATURES = split_words("tall quiet stout lively young old thin cheerful bearded elderly handsome serious")
