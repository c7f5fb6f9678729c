"""Take the signs of the page's formulas, and the table of how to set them, out of STIX Two Math.

Roots stand above single letters here. Chromium leaves room for the widest root of a font, so larger ones are left out.
"""

import sys

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

SIGNS = "√()=…,·/×−+∑∞>1"

source, target = sys.argv[1:]
font = TTFont(source, recalcTimestamp=False)
variants = font["MATH"].table.MathVariants
root = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(font.getBestCmap()[ord("√")])]
root.GlyphAssembly, root.MathGlyphVariantRecord = None, root.MathGlyphVariantRecord[:1]
root.VariantCount = 1
subsetter = Subsetter(Options(layout_features=[]))
subsetter.populate(text=SIGNS)
subsetter.subset(font)
font.flavor = "woff2"
font.save(target)
