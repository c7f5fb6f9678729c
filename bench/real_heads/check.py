"""Compare the recording of Real heads with plain transformers: python bench/real_heads/check.py FOLDER

FOLDER is the model's, as `headscope fetch smollm2 --json` prints it; headscope is not imported here. Compared are every
card's pattern, the next words with its head and without (zero in front of o_proj), and its twenty more sentences.
"""

from __future__ import annotations

import argparse
import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

FILE = Path(__file__).resolve().parents[2] / "src" / "headscope" / "app" / "pages" / "real_heads.json"
CLOSE = 1e-4  # of weights and probabilities; the file rounds them to 1.5e-5


def numbers(text: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(base64.b64decode(text), "<u2")


@contextmanager
def without(model: Any, layer: int, head: int) -> Iterator[None]:
    """Set what one head adds to zero, at every position."""
    size = model.config.head_dim

    def silence(module: Any, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        given = inputs[0].clone()
        given[..., head * size : (head + 1) * size] = 0
        return (given,)

    hook = model.model.layers[layer].self_attn.o_proj.register_forward_pre_hook(silence)
    yield
    hook.remove()


def check(folder: Path, recorded: dict[str, Any]) -> dict[str, float]:
    """The largest difference of a weight, of a next word's probability, and of one in the twenty more sentences."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    sentences, worst = {each["key"]: each for each in recorded["sentences"]}, {"weights": 0.0, "next": 0.0, "more": 0.0}

    def read(text: str) -> torch.Tensor:
        return tokenizer(text, return_tensors="pt").input_ids

    with torch.no_grad():
        for card in recorded["cards"]:
            layer, head = divmod(card["head"], recorded["heads"])
            sentence = sentences[card["sentence"]]
            ids = read(sentence["text"])
            assert [tokenizer.decode(token) for token in ids[0]] == sentence["tokens"]
            whole = model(ids, output_attentions=True)
            rows, columns = np.tril_indices(ids.shape[1])
            pattern = numbers(sentence["weights"]).reshape(-1, len(rows))[card["head"]] / 65535
            compared = [(pattern, whole)]
            if card["after"]:
                with without(model, *divmod(card["after"]["head"], recorded["heads"])):
                    compared.append((numbers(card["after"]["weights"]) / 65535, model(ids, output_attentions=True)))
            for mine, theirs in compared:
                found = theirs.attentions[layer][0, head].numpy()[rows, columns]
                worst["weights"] = max(worst["weights"], float(abs(mine - found).max()))
            vocabulary = [tokenizer(word, add_special_tokens=False).input_ids[0] for word in sentence["next"]]
            kept = numbers(sentence["probabilities"]).reshape(-1, len(vocabulary)) / 65535
            with without(model, layer, head):
                off = model(ids).logits[0, -1].softmax(-1)
            for mine, theirs in ((kept[0], whole.logits[0, -1].softmax(-1)), (kept[1 + card["head"]], off)):
                worst["next"] = max(worst["next"], float(abs(mine - theirs[vocabulary].numpy()).max()))
            for text, words, before, after in card["general"]["points"]:
                after_ids = [tokenizer(word, add_special_tokens=False).input_ids[0] for word in words]
                ids = read(text)
                on = float(model(ids).logits[0, -1].softmax(-1)[after_ids].sum())
                with without(model, layer, head):
                    gone = float(model(ids).logits[0, -1].softmax(-1)[after_ids].sum())
                worst["more"] = max(worst["more"], abs(on - before), abs(gone - after))
            print(f"{card['id']:12s} {layer}.{head} {worst}", flush=True)
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--recording", type=Path, default=FILE)
    given = parser.parse_args()
    worst = check(given.folder, json.loads(given.recording.read_text(encoding="utf-8")))
    assert max(worst.values()) < CLOSE, worst


if __name__ == "__main__":
    main()
