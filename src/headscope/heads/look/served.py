"""Open what the vLLM plug-in (integrations/vllm) captured of one served request, as a look.

The file has q, k, v and z of some layers. Patterns and statistics follow from q and k, and so must z: it is compared.
"""

from __future__ import annotations

import json
from itertools import accumulate
from operator import attrgetter
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from headscope.attention.masks import causal, window
from headscope.attention.observer import Call
from headscope.attention.scores import Scores
from headscope.errors import InputError
from headscope.files import parsing
from headscope.heads.look.activation_cache import size_in_bytes
from headscope.heads.look.look import Look
from headscope.heads.look.saved_look import without_model
from headscope.models.protocol import Prepared, Token
from headscope.models.recording import OpenModel
from headscope.names import ModelShape, Site

FORMAT = 1
CLOSE = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""How far z may be from what follows from q, k and v, of the largest z: rounding, by the precision in the file."""
SAME_MODEL = 0.25
"""How far, on average over a layer, z may be from the scope's: it may be served in fewer bits. Other weights give 1."""


def open_capture(folder: Path, name: str, model: OpenModel | None = None) -> Look:
    """Open a captured request; check its rows, its z and, with a model, that it is this model's."""
    path = folder / f"{name}.safetensors"
    if not path.is_file():
        there = ", ".join(sorted(file.stem for file in folder.glob("*.safetensors"))[:8]) or "none"
        raise InputError(f"{folder} has no capture named {name!r}; it has {there}")
    with parsing(str(path), "ask the server for it again"), safe_open(path, framework="pt") as file:
        told = json.loads(file.metadata()["headscope_capture"])
        if told["format"] != FORMAT:
            raise InputError(f"{path} has format {told['format']}; this program reads {FORMAT}")
        ids = file.get_tensor("ids")
        _refuse_missing_rows(str(path), file.get_tensor("positions"), told["n_prompt"])
        calls, made, sites = {}, {}, {}
        for layer, how in told["scores"].items():
            q, k, v, z = (file.get_tensor(f"{layer}.{what}").transpose(0, 1)[None] for what in "qkvz")
            mask = causal() & window(how["window"]) if how["window"] else causal()
            scores = Scores(scale=how["scale"], mask=mask, softcap=how["softcap"] or None)
            site = str(how["layer"])
            calls[site] = Call(nn.Identity(), q.float(), k.float(), v.float(), scores)
            sites[site], made[site] = Site(site, q.shape[1], k.shape[1], q.shape[3], v.shape[3]), z
        each = zip(ids.tolist(), told["texts"], accumulate(map(len, told["texts"])), strict=True)
        tokens = tuple(Token(one, text, end - len(text), end) for one, text, end in each)
        shape = ModelShape(Path(told["model"]).name, told["d_model"], None, None, sites)
    look = Look(without_model(shape, {token.id: token for token in tokens}), Prepared({"input_ids": ids[None]}, tokens))
    look.cache.logits = torch.zeros(1, len(ids), 0)
    if model is not None:
        look = _of_model(str(path), model, shape, ids, made)
    for site, call in calls.items():
        look.cache.bytes -= size_in_bytes(call.q, call.k, made[site].float())  # kept however large: no pass gives them
        z = look.cache.keep_site(site, call, look.questions)
        apart, close = float((z - made[site]).abs().max() / made[site].abs().max()), CLOSE.get(made[site].dtype, 0)
        if not apart <= close:
            raise InputError(
                f"{path}: z of layer {site} does not follow from its q, k and v (relative difference {apart:.2g}, "
                f"at most {close:g}); the server scores attention in another way"
            )
    return look


def _refuse_missing_rows(path: str, positions: Tensor, n_prompt: int) -> None:
    end = max(int(positions[-1]) + 1, n_prompt)
    if len(positions) != end or not torch.equal(positions, torch.arange(end)):
        raise InputError(
            f"{path}: {end - len(positions)} of {end} rows are missing. The server took them from its prefix cache or "
            "ran them in a CUDA graph; see the plug-in's README"
        )


def _of_model(path: str, model: OpenModel, shape: ModelShape, ids: Tensor, made: dict[str, Tensor]) -> Look:
    """A look of the model at these tokens, without its sites; raise an error if the model makes another z."""
    sizes = attrgetter("n_heads", "n_kv_heads", "d_head", "d_value")
    for name, site in shape.sites.items():
        if name not in model.shape.sites or sizes(model.shape.sites[name]) != sizes(site):
            raise InputError(f"{path} is of another model than {model.shape.name}: its layer {name} has other sizes")
    own = Look(model, model.processor.prepare(ids)).read()
    for name, z in made.items():
        there = own.z(name)[None].float().cpu()
        apart = float((there - z).norm() / there.norm())
        if not apart <= SAME_MODEL:
            raise InputError(
                f"{path} is of another model than {model.shape.name}: z of layer {name} differs by {apart:.0%}"
            )
    look = Look(model, own.prepared)
    look.cache.logits = own.cache.logits
    look.cache.refuse_changed_weights()
    return look
