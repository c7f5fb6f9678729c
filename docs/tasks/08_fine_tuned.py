"""Compare a base model with a fine-tuned one, head by head, on the same texts."""

from pathlib import Path

import headscope

texts = Path("texts.txt").read_text().splitlines()[:20]
found = headscope.compare(headscope.load("base"), headscope.load("tuned"), texts)
found.plot("entropy").save("changes.svg")
