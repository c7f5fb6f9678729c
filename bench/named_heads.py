"""List every place that names a head of the embedded model: ``python -m bench.named_heads``.

Readers are told that some heads have a role; ``CLAIMED`` says which, and a test holds the shipped model to it. After
another model has been packed, ``--replace 5.6=7.3 4.3=5.1`` writes the new names into all of these places.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLAIMED = {"5.6": "induction", "4.3": "previous token"}  # what texts and pictures say about a head by name
READ = ("README.md", "docs/**/*.md", "docs/pictures.py", "src/headscope/**/*.md", "src/headscope/cli/*.py")
DRIVEN = ("tests/**/*.py", "bench/*.py", "web/tests/**/*.ts")  # fail by themselves when a head no longer does it
LEFT_OUT = {
    "docs/roles.md": "generated from the battery",
    "docs/reference/commands.md": "generated from the commands' help",
    "src/headscope/explained/HeadNameError.md": "shows names that are wrong",
    "src/headscope/models/embedded/MODEL_CARD.md": "written by packing, and tested by itself",
}
NAMED = re.compile(
    r"""(?P<before>(?P<quote>["'`])|\b[Hh]eads? |\bhead=|--heads? )(?P<head>\d{1,2}\.\d{1,2})"""
    r"""(?(quote)(?=(?P=quote))|(?=[,.;:)&\s"'`]|$))""",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Place:
    """A head's name in a line of a file."""

    file: str
    line: int
    head: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.head}: {self.text.strip()[:100]}"


def files(patterns: tuple[str, ...]) -> list[Path]:
    found = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    return sorted(path for path in found if str(path.relative_to(ROOT)) not in LEFT_OUT)


def places(patterns: tuple[str, ...] = READ) -> Iterator[Place]:
    """Every head named in these files."""
    for path in files(patterns):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for match in NAMED.finditer(line):
                yield Place(str(path.relative_to(ROOT)), number, match["head"], line)


def replaced(text: str, names: dict[str, str]) -> str:
    """The text with heads renamed where they are named as heads."""
    return NAMED.sub(lambda match: match["before"] + names.get(match["head"], match["head"]), text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replace", nargs="*", default=[], metavar="OLD=NEW", help="rename heads in all files")
    given = parser.parse_args()
    names = dict(pair.split("=") for pair in given.replace)
    for place in places((*READ, *DRIVEN)):
        if place.head in (names or CLAIMED):
            print(place)
    for path in files((*READ, *DRIVEN)) if names else ():
        text = path.read_text(encoding="utf-8")
        if replaced(text, names) != text:
            path.write_text(replaced(text, names), encoding="utf-8")


if __name__ == "__main__":
    main()
