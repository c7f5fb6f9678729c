"""Model cards: what a model's sizes cost and mean, from a config, a folder, a built-in name or bare sizes."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headscope.errors import InputError
from headscope.lab.cards.config_reader import EXAMPLE, KEYS, Architecture, read_config
from headscope.lab.cards.counting import Parameters, count_parameters, kept_per_token, kv_bytes, next_token_flops

LARGEST_CONFIG = 4_000_000
USUAL_LENGTH = 8192


@dataclass(frozen=True)
class Card:
    """A model's sizes and parameter counts. ``config`` is what they were read from."""

    name: str
    title: str
    source: str
    config: Mapping[str, Any]
    model: Architecture
    parameters: Parameters

    @property
    def exact(self) -> bool:
        """Whether every parameter is counted as the model's family is built."""
        return self.model.known and not self.parameters.unknown

    @property
    def heads_in_all(self) -> int:
        """Heads × layers: the number of attention patterns per text."""
        return self.model.n_heads * self.model.attention_layers

    @property
    def length(self) -> int:
        """The model's context, or 8,192 where the config does not say."""
        return self.model.context or USUAL_LENGTH

    def kv_bytes(self, length: int = 1, dtype: str = "fp16", *, expanded: bool = False) -> int:
        """Bytes of the KV cache after this many tokens."""
        return kv_bytes(self.model, length, dtype, expanded=expanded)

    def flops(self, length: int) -> dict[str, int]:
        """FLOPs of one more token after this many, by part."""
        return next_token_flops(self.model, self.parameters, length)

    def change(self, *, n_heads: int | None = None, n_kv_heads: int | None = None) -> Card:
        """The card of the same model with other heads; the width n_heads × d_head stays."""
        model = self.model
        for name, size in (("n_heads", n_heads), ("n_kv_heads", n_kv_heads)):
            if size is not None and size < 1:
                raise InputError(f"{name}={size} must be at least 1")
        if model.latent is not None and n_kv_heads is not None:
            raise InputError("MLA caches one latent vector for all heads: it has no KV heads to change")
        heads, width = n_heads or model.n_heads, model.n_heads * model.d_head
        if model.latent is None and width % heads:
            raise InputError(f"a width of {width} does not divide into {heads} heads; use a divisor")
        d_head = width // heads if model.latent is None else None
        kv = n_kv_heads or max(1, heads * model.n_kv_heads // model.n_heads)
        wanted = {"n_heads": heads, "n_kv_heads": kv, "d_head": d_head}
        replaced = {key for name in wanted for key in KEYS[name]} | {"multi_query"}
        config = {key: value for key, value in model.config.items() if key not in replaced}
        config |= {KEYS[name][0]: size for name, size in wanted.items() if size is not None}
        if model.model_type == "falcon" and not config.get("new_decoder_architecture"):
            # only the newer version has groups of KV heads; its second norm is left out, as in this model
            config |= {"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1}
        return _make_card(config, self.name, f"{self.title}, changed", self.source)

    def head_choices(self) -> list[dict[str, int]]:
        """The same width divided among other numbers of heads; the heads of MLA keep their size."""
        model, fixed, width = self.model, self.model.latent is not None, self.model.n_heads * self.model.d_head
        counts = [model.n_heads * 2**power // 4 for power in range(5)]
        return [
            {"n_heads": count, "d_head": model.d_head if fixed else width // count}
            for count in counts
            if count and (fixed or width % count == 0)
        ]


def _make_card(config: Mapping[str, Any], name: str = "", title: str = "", source: str = "") -> Card:
    """Make a card from a parsed config."""
    try:
        model = read_config(config)
        parameters = count_parameters(model)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InputError(
            f"this config has a value that cannot be read ({error}); it should look like {EXAMPLE}"
        ) from error
    shown = name or str(config.get("_name_or_path") or config.get("model_type") or "your model")
    return Card(name or shown, title or shown, source or "the config itself", config, model, parameters)


def from_sizes(
    d_model: int,
    n_heads: int,
    *,
    n_kv_heads: int | None = None,
    d_head: int | None = None,
    n_layers: int = 1,
    d_ff: int | None = None,
    vocabulary: int | None = None,
) -> Card:
    """Make a card from sizes, for a model built like Llama."""
    if n_kv_heads == 0:
        raise InputError(f"{n_heads} heads cannot share 0 KV heads; give at least 1, for multi-query attention")
    config: dict[str, Any] = {
        "model_type": "llama",
        "hidden_size": d_model,
        "num_attention_heads": n_heads,
        "num_hidden_layers": n_layers,
    }
    given = {"num_key_value_heads": n_kv_heads, "head_dim": d_head, "intermediate_size": d_ff, "vocab_size": vocabulary}
    config |= {key: value for key, value in given.items() if value is not None}
    return _make_card(config, "sizes", f"{n_heads} heads in a width of {d_model}", "sizes given by hand")


def card(what: str | Path | Mapping[str, Any]) -> Card:
    """Find a card by built-in name, or make one from a config.json, a folder with one, JSON text or a mapping."""
    if isinstance(what, Mapping):
        return _make_card(what)
    text = str(what).strip()
    if text.startswith("{"):
        return _make_card(_parse(text, "this text"))
    if text.lower() in built_in():
        return built_in()[text.lower()]
    path = Path(text)
    file = path / "config.json" if path.is_dir() else path
    if file.is_file():
        if file.stat().st_size > LARGEST_CONFIG:
            raise InputError(f"{file} has {file.stat().st_size:,} bytes; a config.json has a few thousand")
        try:
            content = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{file} is not text; give a config.json") from None
        return _make_card(_parse(content, str(file)), file.parent.name or file.stem)
    if path.is_dir():
        raise InputError(f"there is no config.json in {path}; give a model's folder, or one of the names: {_some()}")
    close = difflib.get_close_matches(text.lower(), built_in(), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    raise InputError(f"there is no card and no file called {text!r}; {hint}Names: {_some()}. Or give a config.json")


def _some() -> str:
    return ", ".join(list(built_in())[:6]) + f" … ({len(built_in())} in all)"


def _parse(text: str, where: str) -> Mapping[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):  # a number of thousands of digits is a plain ValueError
        raise InputError(f"{where} is not JSON; a config.json looks like {EXAMPLE}") from None
    if not isinstance(content, Mapping):
        raise InputError(f"{where} holds a {type(content).__name__}; a config.json is one object, as in {EXAMPLE}")
    return content


@cache
def built_in() -> dict[str, Card]:
    """The cards that are part of headscope, by name."""
    stored = json.loads(Path(__file__).with_name("cards.json").read_text(encoding="utf-8"))
    return {
        entry["name"]: _make_card(entry["config"], entry["name"], entry["title"], entry["source"])
        for entry in stored["cards"]
    }


def head_sizes() -> dict[int, list[str]]:
    """The built-in models by head size, the most common first; MLA counts by its value size."""
    sizes = {name: each.model.d_value for name, each in built_in().items()}
    order = [size for size, _ in Counter(sizes.values()).most_common()]
    return {size: [name for name, each in sizes.items() if each == size] for size in order}


def notes(card: Card) -> list[str]:
    """Explain what the numbers mean and what they do not."""
    model = card.model
    heads, layers, width = model.n_heads, model.attention_layers, model.n_heads * model.d_head
    lines = [
        f"{heads} heads in each of {layers} layers: {heads} × {layers} = {card.heads_in_all:,} attention patterns for "
        "every text. A head is not a layer: the heads of one layer work side by side and none sees another's output.",
        f"Heads are not experts: all {heads} of a layer run on every token. W_O mixes their outputs; it does not "
        "choose.",
    ]
    if model.latent is None and width == model.d_model:
        lines.append(
            f"More heads would not be more width: {heads} × {model.d_head} = {width} is shared out, not added to."
        )
    if model.latent is None and width != model.d_model:
        lines.append(
            f"{heads} × {model.d_head} = {width:,} is not d_model = {model.d_model:,}: d_head is chosen freely, "
            f"and d_model / heads ({model.d_model / heads:g}) would be wrong."
        )
    return lines + _notes_on_the_cache(card) + _notes_on_the_rest(card)


def _notes_on_the_cache(card: Card) -> list[str]:
    model, lines = card.model, []
    if model.kind in ("GQA", "MQA"):
        group = model.n_heads // model.n_kv_heads
        lines.append(
            f"{group} query heads share each KV head: the cache is {group} times smaller than with a KV head for each, "
            f"but there are still {model.n_heads} different patterns per layer."
        )
    if model.latent is not None:
        kept, full = kept_per_token(model), kept_per_token(model, expanded=True)
        lines.append(
            f"The {model.n_kv_heads} KV heads in the config are not what is cached: MLA caches "
            f"{model.latent.kv_rank} + {model.latent.d_rope} = {kept} numbers per token and layer. Caching "
            f"every head's key and value instead would take {full:,}, {full / kept:.0f} times as many."
        )
    widths = sorted({window for window in model.windows if window and window < card.length})
    if widths:
        count = sum(window in widths for window in model.windows)
        shown = " or ".join(f"{width:,}" for width in widths)
        excess = card.kv_bytes(1) * card.length / max(1, card.kv_bytes(card.length))
        lines.append(
            f"{count} of {model.n_layers} layers look back at most {shown} tokens, so their cache stops growing "
            f"there; bytes per token × length would be {excess:.1f} times too much at {card.length:,} tokens."
        )
    return lines


def _notes_on_the_rest(card: Card) -> list[str]:
    model, lines = card.model, []
    if model.experts is not None:
        lines.append(
            f"{model.experts.count} experts belong to the FFN, {model.experts.used} of them per token. They "
            "have nothing to do with heads."
        )
    if model.attention_layers < model.n_layers:
        lines.append(
            f"{model.n_layers - model.attention_layers} layers have no heads at all and cache no keys or values."
        )
    if not model.decodes:
        lines.append("An encoder reads the whole text at once: it has no KV cache.")
    if card.parameters.unknown:
        lines.append(f"The config leaves out the sizes of: {', '.join(card.parameters.unknown)}.")
    elif not model.known:
        lines.append(
            f"“{model.model_type}” is not a family known to headscope; it was counted as if built like a Llama."
        )
    return lines
