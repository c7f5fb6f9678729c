"""Loss and KL divergence from final states, one chunk of the vocabulary at a time: the logits are never held whole.

The product with W_U is most of the cost of an ablated prediction. In chunks that stay in the processor's cache it runs
at the speed of other products and needs one chunk's memory. What is linear in the logits needs none of them: the
expected logit under the unablated prediction is one row of ``p · W_U`` times the state.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.errors import ModelError
from headscope.models.protocol import KEEP, ForwardPass, Unembedding
from headscope.models.recording import OpenModel

CHUNK = 4096  # tokens of the vocabulary


class ChunkedLoss:
    """Loss and KL from the input of the final norm, for one text and its unablated prediction."""

    also: Mapping[str, Tensor] = {KEEP: torch.tensor([0])}
    """An extra input for the model: compute the logits of one position only."""

    def __init__(self, ending: Unembedding, logits: Float[Tensor, "query vocabulary"], ids: Tensor) -> None:
        self.ending, self.weight = ending, ending.weight.detach()
        self.bias = None if ending.bias is None else ending.bias.detach()
        shares = logits.float().softmax(-1)
        self.expected = (shares * logits.float()).sum(-1) - logits.float().logsumexp(-1)
        self.direction = shares.to(self.weight.dtype) @ self.weight
        self.offset = 0.0 if self.bias is None else shares @ self.bias.float()
        self.next = ids[0, 1:].to(logits.device)

    def effects(self, done: ForwardPass) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
        """Loss and KL of the predictions of this pass."""
        states = done.residual
        assert states is not None
        x = states if self.ending.norm is None else self.ending.norm(states)
        total = self._logsumexp(x.flatten(0, 1)).view(x.shape[:2])
        said = (x[:, :-1] * self.weight[self.next]).float().sum(-1)
        if self.bias is not None:
            said = said + self.bias[self.next].float()
        expected = (x * self.direction).float().sum(-1) + self.offset
        return (total[:, :-1] - said).mean(-1), (self.expected - expected + total).mean(-1)

    def _logsumexp(self, x: Float[Tensor, "row d_model"]) -> Float[Tensor, " row"]:
        largest = torch.full((len(x),), float("-inf"), device=x.device)
        total = torch.zeros_like(largest)
        for start in range(0, len(self.weight), CHUNK):
            chunk = (x @ self.weight[start : start + CHUNK].T).float()
            if self.bias is not None:
                chunk += self.bias[start : start + CHUNK].float()
            raised = torch.maximum(largest, chunk.amax(-1))
            total = total * (largest - raised).exp() + chunk.sub_(raised[:, None]).exp_().sum(-1)
            largest = raised
        return largest + total.log()


def chunked_loss(model: OpenModel, whole: ForwardPass, ids: Tensor) -> ChunkedLoss | None:
    """A chunked loss that agrees with the logits of this pass; None where a family does more after its final norm."""
    try:
        ending = model.unembedding()
    except ModelError:
        return None
    if ending.caps or whole.residual is None or KEEP not in model.takes:
        return None
    made = ChunkedLoss(ending, whole.logits[0], ids)
    loss, divergence = made.effects(whole)
    own = torch.nn.functional.cross_entropy(whole.logits[0, :-1].float(), made.next)
    allowed = 1e-4 if whole.logits.dtype == torch.float32 else 2e-2
    return made if bool((loss - own).abs() < allowed) and bool(divergence.abs() < allowed) else None
