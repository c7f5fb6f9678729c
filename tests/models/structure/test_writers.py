"""Sources of a recorded stream become writers: by name, kind and layer, in the order in which they wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.structure.carry import Route
from headscope.models.structure.tape import HeadsOutput, Node, Op, Slot, Source
from headscope.models.structure.writers import RecordedStream, SiteReads, Writer, ancestors, layer_names

SHAPE = torch.Size((3, 4))
ROWS, FLAT = torch.arange(12.0).reshape(3, 4), torch.ones(3, 4)


def source(path: str, born: int = 0, *, dynamic: bool = True, in_site: bool = False, **more: Any) -> Source:
    return Source(SHAPE, path, in_site, dynamic, **{"value": FLAT, "op": "mm", "born": born, **more})


def joined(*parts: Node, name: str = "add", order: int = 1) -> Op:
    slots = tuple(Slot(part, None, True, SHAPE) for part in parts)
    return Op(SHAPE, "", False, True, name, None, slots, {}, None, order, True)


def stream(**more: Any) -> RecordedStream:
    layers = {f"layers.{number}": f"{number}" for number in (0, 1, 10)}
    sites = {number: f"layers.{number}.attn" for number in ("0", "1", "10")}
    return RecordedStream(layers=layers, site_paths=sites, embeddings=frozenset({"embed"}), **more)


def named(*sources: Source) -> list[tuple[str, str, str | None]]:
    found = stream().writers(Route(joined(*sources)))
    return [(writer.name, writer.kind, writer.layer) for writer in found]


def heads(bias: Tensor | None) -> Source:
    output = HeadsOutput("1", torch.ones(3, 6), 3, torch.ones(3, 2, 4), bias)
    return source("layers.1.attn.out", value=None, heads=output)


def test_a_site_with_w_o_is_a_writer_for_each_head_and_one_for_its_bias() -> None:
    of_heads = [(f"1.{head}", "head", "1") for head in range(3)]
    assert named(heads(None)) == of_heads
    assert named(heads(torch.ones(4))) == [*of_heads, ("bias 1", "bias", "1")]
    (first, *_, bias) = stream().writers(Route(joined(made := heads(torch.ones(4)))))
    assert (first.sources, bias.sources) == (((made, 0),), ((made, -1),))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (source("embed", op="embedding"), ("embedding", "embedding", None)),
        (source("wte.types", op="embedding"), ("types", "embedding", None)),
        (source("wte.types", op="mm"), ("embedding", "embedding", None)),
        (source("positions", dynamic=False, value=ROWS), ("position embedding", "position", None)),
        (source("bias", dynamic=False), ("bias embedding", "bias", None)),
        (source("bias", dynamic=False, value=torch.arange(4.0)), ("bias embedding", "bias", None)),
        (source("bias", dynamic=False, value=None), ("bias embedding", "bias", None)),
        (source("layers.1.norm", dynamic=False, value=ROWS), ("bias 1", "bias", "1")),
        (source("layers.1.attn.q", dynamic=False, in_site=True), ("bias", "reader", None)),
        (source("layers.1.attn"), ("attention 1", "attention", "1")),
        (source("layers.1.attn.gate"), ("attention 1", "attention", "1")),
        (source("layers.1.attnish"), ("mlp 1", "mlp", "1")),
        (source("layers.10.attn.gate"), ("attention 10", "attention", "10")),
        (source("layers.1"), ("mlp 1", "mlp", "1")),
        (source("layers.1.feed.down"), ("mlp 1", "mlp", "1")),
        (source("layers.1.feed", expert=3), ("mlp 1 expert 3", "mlp", "1")),
        (source("layers.1.feed", expert=0), ("mlp 1 expert 0", "mlp", "1")),
        (source("layers.1.feed", call="1@2"), ("mlp 1@2", "mlp", "1@2")),
        (source("layers.1.feed", call="0@2"), ("mlp 1", "mlp", "1")),
        (source("layers.1.feed", call="1"), ("mlp 1", "mlp", "1")),
    ],
)
def test_a_source_is_named_by_what_made_it(given: Source, expected: tuple[str, str, str | None]) -> None:
    assert named(given) == [expected]


def test_parts_of_a_layer_are_named_where_there_are_several() -> None:
    found = named(
        source("layers.0.feed.down", 1), source("layers.0.adapter", 2), source("layers.0", 3),
        source("layers.0.attn", 4), source("layers.1.feed", 5), source("layers.1.attn", 6),
    )  # fmt: skip
    assert [name for name, _, _ in found] == ["feed 0", "adapter 0", "layer 0", "attention 0", "mlp 1", "attention 1"]


def test_what_is_not_of_the_text_or_has_heads_is_no_part_of_a_layer() -> None:
    bias = source("layers.1.norm", 2, dynamic=False)
    assert [name for name, _, _ in named(source("layers.1.feed", 1), bias)] == ["mlp 1", "bias 1"]
    of_heads = heads(None)
    assert [name for name, _, _ in named(of_heads, source("layers.1.feed", 1))] == ["1.0", "1.1", "1.2", "mlp 1"]


def test_writers_stand_in_the_order_in_which_they_wrote_and_sources_of_one_name_together() -> None:
    late, early, again = source("layers.1.feed", 7), source("embed", 2, op="embedding"), source("layers.1.feed", 9)
    first, second = stream().writers(Route(joined(late, early, again)))
    assert (first.name, second.name) == ("embedding", "mlp 1")
    assert second.sources == ((late, None), (again, None))


def test_what_one_reader_alone_adds_is_its_own_bias() -> None:
    """The β of a norm that stands before one site belongs to it; that of a norm on the stream was written."""
    token, beta = source("embed", op="embedding"), source("norm", 1, dynamic=False)
    normed = joined(token, beta)
    alone, shared = stream(), stream()
    alone.sites = {"0": SiteReads({"q": normed})}
    shared.sites = {"0": SiteReads({"q": normed}), "1": SiteReads({"q": joined(normed, order=2)})}
    assert [writer.kind for writer in alone.writers(Route(normed), "0")] == ["embedding", "reader"]
    assert [writer.kind for writer in shared.writers(Route(normed), "0")] == ["embedding", "bias"]
    assert [writer.kind for writer in alone.writers(Route(normed))] == ["embedding", "bias"]
    inner = joined(token)
    own, beside = joined(inner, beta, order=2), stream()
    beside.sites = {"0": SiteReads({"q": own}), "1": SiteReads({"q": inner})}
    assert [writer.kind for writer in beside.writers(Route(own), "0")] == ["embedding", "reader"]


def test_the_stream_is_what_others_read() -> None:
    token = source("embed")
    shared, own, end = joined(token), joined(token, order=2), joined(token, order=3)
    recorded = stream()
    recorded.sites = {"0": SiteReads({"q": own, "k": shared}), "1": SiteReads({"q": shared})}
    assert recorded.on_stream("1") == {own, shared, token} - {shared}
    assert recorded.on_stream("0") == set()
    recorded.final = end
    assert recorded.on_stream("0") == {end, token}
    recorded.roots = [own]
    assert recorded.on_stream("1") == {own, end, token}


def test_ancestors_are_all_that_is_carried_into_a_node() -> None:
    first, second, other = source("a"), source("b"), source("c")
    inner = joined(first, second)
    outer = joined(inner, first, order=2)
    assert ancestors([outer]) == {outer, inner, first, second}
    assert ancestors([inner, other]) == {inner, first, second, other}
    assert ancestors([]) == set()


def test_a_side_that_is_not_carried_is_refused_with_its_reason() -> None:
    recorded, node = stream(), joined(source("a"))
    recorded.sites = {"0": SiteReads({"q": node}, {"k": "clipping in layers.0 is neither linear nor a norm"})}
    assert recorded.node("0", "q") is node
    with pytest.raises(
        ModelError, match=r"^0: its k is not a sum .* stream: clipping in layers.0 is neither .* before"
    ):
        recorded.node("0", "k")


def test_a_writer_is_itself_alone() -> None:
    one, other = (Writer("a", "mlp", ()) for _ in range(2))
    assert one != other
    assert len({one, other}) == 2


class Block(nn.Module):
    def __init__(self, *names: str, **lists: list[nn.Module]) -> None:
        super().__init__()
        for name in names:
            self.add_module(name, nn.Identity())
        for name, parts in lists.items():
            self.add_module(name, nn.ModuleList(parts))


@pytest.mark.parametrize(
    ("model", "paths", "expected"),
    [
        (
            Block(layers=[Block("attn"), Block("attn")]), {"0": "layers.0.attn", "1": "layers.1.attn"},
            {"layers.0": "0", "layers.1": "1"},
        ),
        (
            Block(layers=[Block("attn"), Block("mix"), Block("attn")]), {"0": "layers.0.attn", "2": "layers.2.attn"},
            {"layers.0": "0", "layers.1": "1", "layers.2": "2"},
        ),
        (
            Block(layers=[Block("own", "cross")]),
            {"decoder.0.cross": "layers.0.cross", "decoder.0": "layers.0.own"},
            {"layers.0": "decoder.0"},
        ),
        (Block(layers=[Block("attn")]), {"0@2": "layers.0.attn"}, {"layers.0": "0"}),
        (Block(layers=[Block("attn")]), {"0.longer": "layers.0.attn", "0": "layers.0.attn"}, {"layers.0": "0"}),
        (Block(layers=[Block("attn")]), {"0": "layers.0.attn", "0.longer": "layers.0.attn"}, {"layers.0": "0"}),
        (Block(layers=[Block("a", "b")]), {"0.x": "layers.0.a", "0.y": "layers.0.b"}, {"layers.0": "0.x"}),
        (Block("attn"), {"attn": "attn"}, {}),
        (
            Block(stages=[Block(blocks=[Block("attn"), Block("attn")])]),
            {"0": "stages.0.blocks.0.attn", "1": "stages.0.blocks.1.attn"},
            {"stages.0.blocks.0": "0", "stages.0.blocks.1": "1"},
        ),
        (
            Block(layers=[Block(parts=[Block("attn"), Block("feed")]), Block(parts=[Block("attn"), Block("feed")])]),
            {"0": "layers.0.parts.0.attn", "1": "layers.1.parts.0.attn"},
            {"layers.0": "0", "layers.1": "1"},
        ),
        (
            Block(layers=[Block("attn"), Block("mix"), Block("mix")]), {"text.0": "layers.0.attn"},
            {"layers.0": "text.0", "layers.1": "text.1", "layers.2": "text.2"},
        ),
        (Block(layers=[Block("attn"), Block("mix")]), {"first": "layers.0.attn"}, {"layers.0": "first"}),
        (
            Block(layers=[Block("attn") for _ in range(11)]), {str(at): f"layers.{at}.attn" for at in (1, 10)},
            {f"layers.{at}": str(at) for at in range(11)},
        ),
    ],
)  # fmt: skip
def test_layers_are_named_as_their_sites(model: nn.Module, paths: Mapping[str, str], expected: dict[str, str]) -> None:
    assert layer_names(model, paths) == expected
