"""Generate with a head off, and with a steering vector: the difference of two texts in the middle of the stream."""

import headscope

scope = headscope.load()
glad, sad = (scope.look(text).recorded.value("resid_pre 4")[-1] for text in ("I am so happy", "I am so sad"))
for edit in (headscope.ablate("5.6"), headscope.steer("resid_pre 4", 4 * (glad - sad))):
    with scope.edit(edit):
        print(scope.generate("When she came back, she was", max_new_tokens=12).text)
