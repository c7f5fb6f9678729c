"""Draw how much each head adds to one logit over another."""

import headscope

look = headscope.load().look("When Mary and John went to the shop, John gave a book to")
look.logit_attribution(" Mary", minus=" John").plot().save("attribution.svg")
