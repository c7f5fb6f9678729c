"""One text through a Llama of transformers, by hand: patterns, scores, and what each component adds to them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class LlamaByHand:
    """Every number is computed from the weights and from plain hooks in float64, with no code of headscope's."""

    @torch.no_grad()
    def __init__(self, model: Any, ids: list[int]) -> None:
        self.model, self.config, self.ids = model, model.config, ids
        self.layers = model.model.layers
        kept: dict[str, Tensor] = {}
        hooks = []

        def keep(module: Any, name: str, before: bool) -> None:
            if before:
                hook = module.register_forward_pre_hook(lambda _, args: kept.update({name: args[0][0].double()}))
            else:
                hook = module.register_forward_hook(lambda _, args, out: kept.update({name: out[0].double()}))
            hooks.append(hook)

        keep(model.model.embed_tokens, "embedding", before=False)
        keep(model.model.norm, "end", before=True)
        for number, layer in enumerate(self.layers):
            keep(layer.self_attn.o_proj, f"z {number}", before=True)
            keep(layer.mlp, f"mlp {number}", before=False)
            keep(layer.input_layernorm, f"stream {number}", before=True)
        self.logits = model(torch.tensor([ids])).logits[0].double()
        for hook in hooks:
            hook.remove()
        self.kept = kept
        self.d_head = model.config.head_dim
        self.n_heads, self.n_kv = model.config.num_attention_heads, model.config.num_key_value_heads
        self.cos, self.sin = (
            each[0].double() for each in model.model.rotary_emb(kept["end"], torch.arange(len(ids))[None])
        )

    def writers(self, layer: int) -> dict[str, Tensor]:
        """What was added to the stream before this layer, by component: [position, d_model]."""
        found = {"embedding": self.kept["embedding"]}
        for number in range(layer):
            weight = self.layers[number].self_attn.o_proj.weight.double()
            z = self.kept[f"z {number}"].view(len(self.ids), self.n_heads, self.d_head)
            for head in range(self.n_heads):
                found[f"{number}.{head}"] = z[:, head] @ weight[:, head * self.d_head : (head + 1) * self.d_head].T
            found[f"mlp {number}"] = self.kept[f"mlp {number}"]
        return found

    @staticmethod
    def held(norm: Any, stream: Tensor, written: Tensor) -> Tensor:
        """A part of the stream through a norm whose scale is held at that of the whole stream."""
        return (
            written * torch.rsqrt(stream.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon) * norm.weight.double()
        )

    def turn(self, x: Tensor, at: int) -> Tensor:
        half = x.shape[-1] // 2
        return x * self.cos[at] + torch.cat((-x[..., half:], x[..., :half]), -1) * self.sin[at]

    def _side(self, head: str, position: int, which: str) -> dict[str, Tensor]:
        """q or k of a head at one position before it is rotated, by component."""
        layer, number = map(int, head.split("."))
        block = self.layers[layer]
        number = number if which == "q" else number * self.n_kv // self.n_heads
        rows = slice(number * self.d_head, (number + 1) * self.d_head)
        weight = getattr(block.self_attn, f"{which}_proj").weight.double()[rows]
        stream = self.kept[f"stream {layer}"][position]
        return {
            name: self.held(block.input_layernorm, stream, part[position]) @ weight.T
            for name, part in self.writers(layer).items()
        }

    @torch.no_grad()
    def scores(self, head: str, query: int) -> Tensor:
        """The scores of a row, all keys up to the query."""
        q = self.turn(sum(self._side(head, query, "q").values(), torch.zeros(())), query)
        keys = (self.turn(sum(self._side(head, j, "k").values(), torch.zeros(())), j) for j in range(query + 1))
        return torch.stack([q @ key for key in keys]) / self.d_head**0.5

    def weights(self, head: str, query: int) -> Tensor:
        return self.scores(head, query).softmax(0)

    @torch.no_grad()
    def contributions(
        self, head: str, query: int, key: int, against: Tensor
    ) -> tuple[dict[str, float], dict[str, float]]:
        """What each component adds to a score, minus the average over keys by ``against``: query side, key side."""
        q = {name: self.turn(part, query) for name, part in self._side(head, query, "q").items()}
        keys = [{n: self.turn(p, j) for n, p in self._side(head, j, "k").items()} for j in range(query + 1)]
        relative = {n: keys[key][n] - sum(w * each[n] for w, each in zip(against, keys, strict=True)) for n in keys[0]}
        whole_q, whole_k = sum(q.values(), torch.zeros(())), sum(relative.values(), torch.zeros(()))
        scale = self.d_head**-0.5
        asked = {name: float(part @ whole_k) * scale for name, part in q.items()}
        return asked, {name: float(whole_q @ part) * scale for name, part in relative.items()}

    @torch.no_grad()
    def by_distance(self, head: str, query: int, key: int) -> float:
        """The score, minus what the same query and key score on average over the distances in this row."""
        q = self.turn(sum(self._side(head, query, "q").values(), torch.zeros(())), query)
        k = sum(self._side(head, key, "k").values(), torch.zeros(()))
        at = torch.stack([q @ self.turn(k, j) for j in range(query + 1)]) / self.d_head**0.5
        return float(at[key] - at.mean())

    @torch.no_grad()
    def logit_parts(self, position: int, token: int, minus: int | None = None) -> tuple[dict[str, float], float]:
        """What each component adds to a logit, or to a difference of two; and that number."""
        rows = self.model.lm_head.weight.double()
        direction = rows[token] if minus is None else rows[token] - rows[minus]
        end, norm = self.kept["end"][position], self.model.model.norm
        parts = {
            name: float(self.held(norm, end, part[position]) @ direction)
            for name, part in self.writers(len(self.layers)).items()
        }
        return parts, float(self.held(norm, end, end) @ direction)

    @torch.no_grad()
    def through_keys(self, head: str, position: int, token: int, minus: int | None = None) -> Tensor:
        """What a head adds to a logit through each key."""
        layer, number = map(int, head.split("."))
        attention, norm = self.layers[layer].self_attn, self.layers[layer].input_layernorm
        rows = self.model.lm_head.weight.double()
        direction = rows[token] if minus is None else rows[token] - rows[minus]
        kv = number * self.n_kv // self.n_heads
        v_rows = slice(kv * self.d_head, (kv + 1) * self.d_head)
        stream = self.kept[f"stream {layer}"][: position + 1]
        v = self.held(norm, stream, stream) @ attention.v_proj.weight.double()[v_rows].T
        out = v @ attention.o_proj.weight.double()[:, number * self.d_head : (number + 1) * self.d_head].T
        end = self.kept["end"][position]
        return self.weights(head, position) * (self.held(self.model.model.norm, end, out) @ direction)
