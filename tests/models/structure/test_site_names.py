"""Names of sites from module paths: those of real families, and one name each for any paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headscope.models.structure.sites import name_sites, stack_of
from headscope.names import AttentionKind


def named(paths: list[str], stacks: tuple[str, ...] = (), cross: str = "nothing") -> list[str]:
    kinds: dict[str, AttentionKind] = {path: "cross" if cross in path else "self" for path in paths}
    names = name_sites(paths, kinds, stacks)
    assert list(names) == paths
    return list(names.values())


def test_a_plain_decoder_is_numbered() -> None:
    assert named([f"model.layers.{layer}.self_attn" for layer in range(12)]) == [str(layer) for layer in range(12)]


def test_a_module_without_a_number_is_named_by_its_last_word() -> None:
    assert named(["pooler.attention"]) == ["attention"]


def test_an_encoder_and_a_decoder_with_cross_attention() -> None:
    paths = [
        "encoder.layers.0.self_attn", "encoder.layers.1.self_attn", "decoder.layers.0.self_attn",
        "decoder.layers.0.encoder_attn", "decoder.layers.1.self_attn", "decoder.layers.1.encoder_attn",
    ]  # fmt: skip
    expected = ["encoder.0", "encoder.1", "decoder.0", "decoder.0.cross", "decoder.1", "decoder.1.cross"]
    assert named(paths, ("decoder", "encoder"), cross="encoder_attn") == expected


def test_numbers_that_never_differ_are_left_out() -> None:
    """T5 keeps attention in ``layer.0`` of every block and cross-attention in ``layer.1``."""
    paths = [f"decoder.block.{block}.layer.{index}.Attention" for block in range(2) for index in (0, 1)]
    assert named(paths) == ["0.0", "0.1", "1.0", "1.1"]
    assert named(paths[::2]) == ["0", "1"]


def test_a_word_before_the_layer_tells_two_towers_apart() -> None:
    paths = ["left.layers.0.attn", "left.layers.1.attn", "right.layers.0.attn", "right.layers.1.attn"]
    assert named(paths) == ["left.0", "left.1", "right.0", "right.1"]


def test_a_word_after_the_layer_tells_two_modules_of_one_layer_apart() -> None:
    paths = ["layers.0.time_attn", "layers.0.space_attn", "layers.1.time_attn", "layers.1.space_attn"]
    assert named(paths) == ["0.time_attn", "0.space_attn", "1.time_attn", "1.space_attn"]


def test_a_word_is_added_only_where_it_tells_sites_apart() -> None:
    assert named(["a.0.x", "a.0.y", "b.0.x"]) == ["a.0.x", "a.0.y", "b.0"]


@pytest.mark.parametrize(
    ("path", "stacks", "expected"),
    [
        ("vision_model.encoder.layers.3.self_attn", ("vision", "audio", "decoder", "encoder"), "vision"),
        ("model.visual.blocks.0.attn", ("vision",), "vision"),
        ("audio_tower.layers.0.self_attn", ("vision", "audio"), "audio"),
        ("text_model.encoder.layers.0.self_attn", ("text",), "text"),
        ("model.decoder.layers.0.encoder_attn", ("encoder", "decoder"), "decoder"),
        ("model.layers.0.vision_cross_attn", ("vision",), ""),
        ("model.layers.0.self_attn", (), ""),
        ("MODEL.Encoder.Layers.0", ("encoder",), "encoder"),
        ("encoder", ("encoder",), "encoder"),
    ],
)
def test_a_stack_is_found_in_the_words_before_the_first_number(
    path: str, stacks: tuple[str, ...], expected: str
) -> None:
    assert stack_of(path, stacks) == expected


words = st.sampled_from(["encoder", "decoder", "vision", "layers", "attn", "cross", "h", "block", "0", "1", "2", "17"])
module_paths = st.lists(words, min_size=1, max_size=5).map(".".join)


@given(
    paths=st.lists(module_paths, min_size=1, max_size=8, unique=True),
    stacks=st.lists(st.sampled_from(["vision", "decoder", "encoder"]), unique=True),
    cross=st.booleans(),
)
def test_any_paths_get_one_name_each_without_gaps(paths: list[str], stacks: list[str], cross: bool) -> None:
    kinds: dict[str, AttentionKind] = {path: "cross" if cross and "cross" in path else "self" for path in paths}
    names = name_sites(paths, kinds, stacks)
    assert set(names) == set(paths)
    assert all(names.values())
    others = {name: path for path, name in names.items()}
    clash = [path for path in paths if names[path] != path and others[names[path]] != path]
    assert not clash, "a short name is never given twice"


@given(st.lists(module_paths, min_size=1, max_size=6, unique=True), st.randoms())
def test_names_do_not_depend_on_the_order_of_the_paths(paths: list[str], random: object) -> None:
    kinds: dict[str, AttentionKind] = dict.fromkeys(paths, "self")
    mixed = list(paths)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert name_sites(paths, kinds, ("encoder",)) == name_sites(mixed, kinds, ("encoder",))
