"""Draw what a head of a vision model looks at, over the picture."""

from pathlib import Path

import headscope

look = headscope.load("vit").look(Path("picture.png"))
look.plot("1.1", query="CLS").save("overlay.png")
