"""Find the induction heads, and ablate them and as many random heads of the same layers."""

import headscope

scope, text = headscope.load(), "My white horse drank at the river. My white horse drank at the"
found = [each.head for each in scope.heads(headscope.RoleOptions(roles=("induction",))).findings]
for heads in (found, headscope.random_heads(scope, like=found)):
    with scope.edit(headscope.ablate(*heads)):
        print(len(heads), "heads off:", scope.look(text).predictions(count=1))
