"""Programs whose heads are known: small algorithms, each a few rules that heads can be compiled to follow."""

from __future__ import annotations

from headscope.lab.compile import Program

_ALGORITHMS = (
    Program("induction", ("after a copy",)),
    Program("induction on the last copy", ("last after a copy",)),
    Program("induction of two tokens", ("after a copy of two",)),
    Program("skip induction", ("two after a copy",)),
    Program("most frequent token", ("copies",)),
    Program("last seen", ("last copies",)),
    Program("count digits", ("digits",)),
    Program("count capitals and words", ("capitals", "content words", "function words")),
    Program("running maximum of numbers", ("digits", "last digits")),
    Program("sort numbers", ("digits", "digits, near 8", "previous token")),
    Program("matching brackets", ("matching bracket",)),
    Program("sentence starts", ("start of sentence",)),
    Program("line starts", ("start of line",)),
    Program("look up a name", ("last capitals", "after a copy")),
    Program("key and value", ("previous token", "after a copy", "copies")),
    Program("trigrams", ("itself", "previous token", "2 back")),
    Program("shift register", ("3 back", "4 back", "5 back", "6 back")),
    Program("bag of recent words", ("decay 4", "decay 16")),
    Program("moving averages", ("decay 2", "decay 8", "decay 32")),
    Program("rest", ("first token",)),
    Program("punctuation state", ("last punctuation", "last sentence ends", "last commas")),
    Program("clause", ("last commas", "start of sentence", "previous token")),
    Program("names near by", ("capitals, near 8", "capitals, near 3")),
    Program("grammar", ("last function words", "last content words")),
    Program("suffixes", ("word pieces", "last word pieces")),
    Program("letters in brackets", ("matching bracket", "last punctuation", "first token")),
    Program("copying machine", ("after a copy", "last copies", "first token", "decay 8")),
    Program("function words near", ("function words, near 3", "function words")),
    Program("content", ("content words", "content words, near 8")),
    Program("stops", ("sentence ends", "sentence ends, near 8", "punctuation")),
    Program("far offsets", ("7 back", "8 back")),
)

PROGRAMS = {program.name: program for program in _ALGORITHMS}
"""The project's own programs, by name."""
