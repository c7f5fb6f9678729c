"""Find the heads that retrieve: how much the last token attends to the needle in a long text."""

import headscope

hay, needle = "The grass is green and the sky is blue. " * 60, "The secret word is lantern. "
look = headscope.load().look(hay + needle + hay + "The secret word is")
span = look.span("lantern")
last, needle = slice(-1, None), slice(span.start, span.stop)
mass = {head: float(look.weights(head, last, needle).sum()) for head in look.shape.heads()}
print(sorted(mass.items(), key=lambda item: -item[1])[:5])
