"""Model cards read aloud: from a config, a folder, a name or bare sizes to what the numbers cost and what they mean."""

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
from headscope.lab.cards.config_reader import EXAMPLE, KEYS, Anatomy, read_config
from headscope.lab.cards.counting import BYTES, Parameters, count_parameters, kept_per_token, kv_bytes, next_token_flops

LARGEST_CONFIG = 4_000_000
USUAL_LENGTH = 8192


@dataclass(frozen=True)
class Card:
    """A model's sizes, counted. ``config`` is what it was read from."""

    name: str
    title: str
    source: str
    config: Mapping[str, Any]
    anatomy: Anatomy
    parameters: Parameters

    @property
    def exact(self) -> bool:
        """Whether the family is one whose every parameter is known."""
        return self.anatomy.known and not self.parameters.unknown

    @property
    def heads_in_all(self) -> int:
        """Heads × layers: how many attention patterns one text makes."""
        return self.anatomy.n_heads * self.anatomy.attention_layers

    @property
    def length(self) -> int:
        """The context it was made for, where it is known."""
        return self.anatomy.context or USUAL_LENGTH

    def kv_bytes(self, length: int = 1, dtype: str = "fp16", *, expanded: bool = False) -> int:
        """Bytes that the KV cache takes after this many tokens."""
        return kv_bytes(self.anatomy, length, dtype, expanded=expanded)

    def flops(self, length: int) -> dict[str, int]:
        """What one more token costs after this many, part by part."""
        return next_token_flops(self.anatomy, self.parameters, length)

    def change(self, *, n_heads: int | None = None, n_kv_heads: int | None = None, d_head: int | None = None) -> Card:
        """The same model with other heads. Without a new d_head the same width is cut into more or fewer pieces."""
        anatomy = self.anatomy
        for name, size in (("n_heads", n_heads), ("n_kv_heads", n_kv_heads), ("d_head", d_head)):
            if size is not None and size < 1:
                raise InputError(f"{name}={size} must be at least 1")
        if anatomy.latent is not None and n_kv_heads is not None:
            raise InputError("MLA keeps one latent vector for all heads: there are no KV heads to change")
        heads = n_heads or anatomy.n_heads
        width = anatomy.n_heads * anatomy.d_head
        if d_head is None and anatomy.latent is None:
            if width % heads:
                raise InputError(
                    f"a width of {width} does not divide into {heads} heads; use a divisor, or give d_head too"
                )
            d_head = width // heads
        kv = n_kv_heads or max(1, heads * anatomy.n_kv_heads // anatomy.n_heads)
        wanted = {"n_heads": heads, "n_kv_heads": kv, "d_head": d_head}
        sizes = anatomy.switches  # the language model's own part of the config
        config = {key: value for key, value in sizes.items() if not any(key in KEYS[name] for name in wanted)}
        config |= {KEYS[name][0]: size for name, size in wanted.items() if size is not None}
        config.pop("multi_query", None)
        if anatomy.model_type == "falcon" and not sizes.get("new_decoder_architecture"):
            # only its newer build has groups of KV heads; that one has a second norm, which this model has not
            config |= {"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1}
        return make_card(config, self.name, f"{self.title}, changed", self.source)

    def kv_choices(self, length: int) -> list[dict[str, Any]]:
        """Every number of KV heads that would fit, from MHA to MQA."""
        if self.anatomy.latent is not None:
            return []
        counts = [count for count in range(self.anatomy.n_heads, 0, -1) if self.anatomy.n_heads % count == 0]
        return [_choice(self.change(n_kv_heads=count), length) for count in counts]

    def head_choices(self) -> list[dict[str, int]]:
        """The same width cut into other numbers of heads; MLA cuts nothing, its heads keep their size."""
        anatomy = self.anatomy
        width = anatomy.n_heads * anatomy.d_head
        counts = [anatomy.n_heads * 2**power // 4 for power in range(5)]
        if anatomy.latent is not None:
            return [{"n_heads": count, "d_head": anatomy.d_head} for count in counts if count]
        return [{"n_heads": count, "d_head": width // count} for count in counts if count and width % count == 0]

    def to_dict(self, length: int | None = None) -> dict[str, Any]:
        length = self.length if length is None else length
        anatomy, parameters = self.anatomy, self.parameters
        return {
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "config": dict(self.config),
            "model_type": anatomy.model_type,
            "attention": anatomy.kind,
            **{
                name: getattr(anatomy, name)
                for name in ("d_model", "n_layers", "n_heads", "n_kv_heads", "d_head", "d_value")
            },
            "group_size": anatomy.n_heads // anatomy.n_kv_heads,
            "windows": list(anatomy.windows),
            "vocabulary": anatomy.vocabulary,
            "context": anatomy.context,
            "heads_in_all": self.heads_in_all,
            "parameters": parameters.parts,
            "total": parameters.total,
            "active": None if parameters.unknown else sum(parameters.active.values()),
            "unknown": list(parameters.unknown),
            "exact": self.exact,
            "length": length,
            "kv_bytes_per_token": {dtype: self.kv_bytes(1, dtype) for dtype in BYTES},
            "kv_bytes": {dtype: self.kv_bytes(length, dtype) for dtype in BYTES},
            "flops": self.flops(length),
            "kv_choices": self.kv_choices(length),
            "head_choices": self.head_choices(),
            "notes": notes(self),
        }


def _choice(card: Card, length: int) -> dict[str, Any]:
    return {
        "n_kv_heads": card.anatomy.n_kv_heads,
        "attention": card.anatomy.kind,
        "kv_bytes": card.kv_bytes(length),
        "total": card.parameters.total,
    }


def make_card(config: Mapping[str, Any], name: str = "", title: str = "", source: str = "") -> Card:
    """A card from a config that is already in hand."""
    try:
        anatomy = read_config(config)
        parameters = count_parameters(anatomy)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InputError(
            f"this config has a value that cannot be read ({error}); it should look like {EXAMPLE}"
        ) from error
    shown = name or str(config.get("_name_or_path") or config.get("model_type") or "your model")
    return Card(name or shown, title or shown, source or "the config itself", config, anatomy, parameters)


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
    """A card from bare sizes, built like a Llama."""
    config: dict[str, Any] = {
        "model_type": "llama",
        "hidden_size": d_model,
        "num_attention_heads": n_heads,
        "num_hidden_layers": n_layers,
    }
    given = {"num_key_value_heads": n_kv_heads, "head_dim": d_head, "intermediate_size": d_ff, "vocab_size": vocabulary}
    config |= {key: value for key, value in given.items() if value is not None}
    return make_card(config, "sizes", f"{n_heads} heads in a width of {d_model}", "sizes given by hand")


def card(what: str | Path | Mapping[str, Any]) -> Card:
    """The card of a built-in name, a config.json, a folder that holds one, or a config as text or mapping."""
    if isinstance(what, Mapping):
        return make_card(what)
    text = str(what).strip()
    if text.startswith("{"):
        return make_card(_parse(text, "this text"))
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
        return make_card(_parse(content, str(file)), file.parent.name or file.stem)
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
    """The cards that come with headscope, by name."""
    stored = json.loads(Path(__file__).with_name("cards.json").read_text(encoding="utf-8"))
    return {
        entry["name"]: make_card(entry["config"], entry["name"], entry["title"], entry["source"])
        for entry in stored["cards"]
    }


def head_sizes() -> dict[int, list[str]]:
    """Where the built-in models cluster: each d_head, the commonest first, and who has it. MLA counts by its values."""
    sizes = {name: each.anatomy.d_value for name, each in built_in().items()}
    order = [size for size, _ in Counter(sizes.values()).most_common()]
    return {size: [name for name, each in sizes.items() if each == size] for size in order}


def notes(card: Card) -> list[str]:
    """What the numbers mean, and what they do not."""
    anatomy = card.anatomy
    heads, layers, width = anatomy.n_heads, anatomy.attention_layers, anatomy.n_heads * anatomy.d_head
    said = [
        f"{heads} heads in each of {layers} layers: {heads} × {layers} = {card.heads_in_all:,} attention patterns for "
        "every text. A head is not a layer: the heads of one layer work side by side and none sees another's answer.",
        f"Heads are not experts: all {heads} of a layer run on every token. W_O mixes what they say; it does not "
        "choose.",
    ]
    if anatomy.latent is None and width == anatomy.d_model:
        said.append(
            f"More heads would not be more width: {heads} × {anatomy.d_head} = {width} is shared out, not added to."
        )
    if anatomy.latent is None and width != anatomy.d_model:
        said.append(
            f"{heads} × {anatomy.d_head} = {width:,} is not d_model = {anatomy.d_model:,}: d_head is chosen freely, "
            f"and d_model / heads ({anatomy.d_model / heads:g}) would be wrong."
        )
    said += _notes_on_sharing(card) + _notes_on_the_rest(card)
    return said


def _notes_on_sharing(card: Card) -> list[str]:
    anatomy, said = card.anatomy, []
    if anatomy.kind in ("GQA", "MQA"):
        group = anatomy.n_heads // anatomy.n_kv_heads
        said.append(
            f"{group} query heads share each KV head: the cache is {group} times smaller than with a KV head for each, "
            f"but there are still {anatomy.n_heads} different patterns a layer."
        )
    if anatomy.latent is not None:
        kept, full = kept_per_token(anatomy), kept_per_token(anatomy, expanded=True)
        said.append(
            f"The {anatomy.n_kv_heads} KV heads in the config are not what is kept: MLA keeps "
            f"{anatomy.latent.kv_rank} + {anatomy.latent.d_rope} = {kept} numbers a token and layer. Keeping "
            f"every head's key and value instead would take {full:,}, {full / kept:.0f} times as many."
        )
    widths = sorted({window for window in anatomy.windows if window and window < card.length})
    if widths:
        count = sum(window in widths for window in anatomy.windows)
        shown = " or ".join(f"{width:,}" for width in widths)
        excess = card.kv_bytes(1) * card.length / max(1, card.kv_bytes(card.length))
        said.append(
            f"{count} of {anatomy.n_layers} layers look back at most {shown} tokens, so their cache stops growing "
            f"there; bytes a token × length would say {excess:.1f} times too much at {card.length:,} tokens."
        )
    return said


def _notes_on_the_rest(card: Card) -> list[str]:
    anatomy, said = card.anatomy, []
    if anatomy.experts is not None:
        said.append(
            f"{anatomy.experts.count} experts belong to the FFN, {anatomy.experts.used} of them for each token. They "
            "have nothing to do with heads."
        )
    if anatomy.attention_layers < anatomy.n_layers:
        said.append(
            f"{anatomy.n_layers - anatomy.attention_layers} layers have no heads at all and keep no keys or values."
        )
    if not anatomy.decodes:
        said.append("An encoder reads the whole text at once: it keeps no cache between tokens.")
    if card.parameters.unknown:
        said.append(f"The source does not say enough to count: {', '.join(card.parameters.unknown)}.")
    elif not anatomy.known:
        said.append(
            f"“{anatomy.model_type}” is not a family we know to the last parameter; it was counted as if built like a "
            "Llama."
        )
    return said
