"""Measure the mean attention entropy of every head over 200 texts."""

import headscope

census = headscope.load().scan("texts.txt", options=headscope.ScanOptions(lines=True))
print(census.matrix("entropy"))
