"""Real heads: the cards of the page, the sentences they were measured on, and the program that records them."""
