"""Ask every head a question of your own: how much of its attention goes from a pronoun to a name."""

import headscope

look = headscope.load().look("Mary met John. She gave him a book, and he thanked her.")
scores = look.ask(headscope.token_class("names", "Mary|John", query="(?i)she|he|him|her"))
print(sorted(scores.items(), key=lambda item: -item[1])[:5])
