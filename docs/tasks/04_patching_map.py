"""Draw the activation patching map of an indirect object: which head's z brings the name back."""

import headscope

clean = "When Mary and John went to the shop, John gave a book to"
corrupted = "When Mary and John went to the shop, Mary gave a book to"
found = headscope.load().patching(clean, corrupted, (" Mary", " John"))
found.plot().save("patching.svg")
