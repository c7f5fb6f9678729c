"""Save one head's pattern for a paper and for the web."""

import headscope

figure = headscope.load().look("My white horse drank at the river. My white horse drank at the").plot("5.6")
figure.save("pattern.pdf")
figure.save("pattern.svg")
