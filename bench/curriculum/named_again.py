"""Names of novels that come again: who is meant, among the people of the page, weighs as much as a marked answer."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Bool, Int
from tokenizers import Tokenizer
from torch import Tensor

NEAR = 400  # tokens within which a name has been said before


def named_again(tokens: Int[Tensor, " token"], names: Iterable[str], tokenizer: Tokenizer) -> Bool[Tensor, " token"]:
    """Which tokens are a name, of a single token, that was said not long before."""
    encoded = (tokenizer.encode(f" {name}", add_special_tokens=False).ids for name in names)
    single = torch.tensor(sorted({ids[0] for ids in encoded if len(ids) == 1}), dtype=tokens.dtype)
    places = torch.isin(tokens, single).nonzero()[:, 0]
    by_name = places[tokens[places].long().argsort(stable=True)]
    again = (tokens[by_name].diff() == 0) & (by_name.diff() <= NEAR)
    found = torch.zeros(len(tokens), dtype=torch.bool)
    found[by_name[1:][again]] = True
    return found
