"""Open damaged files in a process of its own, since a crash would end the tests. Prints one JSON line per file.

``python -m tests.fuzz.opening FOLDER [KIND …]``. Each kind is a fork, so that modules are imported once. A timer ends a
fork after SECONDS of processor time on one file.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import headscope
from headscope.errors import HeadscopeError
from headscope.scan.census import Census
from headscope.scan.corpus.documents import Corpus
from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from tests.fuzz.breaking import BREAKS
from tests.models import tiny
from tests.scan.tiny import open_tiny, texts

SECONDS = 20
OPTIONS = ScanOptions(context=32, shard_tokens=64, batch=2, threads=1, replicates=4, examples=1)


def open_model(path: Path) -> None:
    with headscope.load(path) as scope:
        scope.look([1, 2, 3]).predictions()


def read_corpus(path: Path) -> None:
    corpus = Corpus(path, broken="skip")
    for _ in corpus:
        pass
    if corpus.problems:
        raise HeadscopeError("; ".join(corpus.problems))


def read_census(path: Path) -> None:
    census = Census.load(path)
    census.to_arrow(), census.examples().to_pylist()


def resume(path: Path) -> None:
    scan(open_tiny(), texts(6), out=path, options=OPTIONS)


def read_film(path: Path) -> None:
    from headscope.heads.film import Film

    Film.load(path)


def read_card(path: Path) -> None:
    from headscope.lab.cards.card import card

    card(path)


def model_folder(folder: Path) -> Path:
    tiny.llama().save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return folder


def gguf_file(folder: Path) -> Path:
    """The small model in llama.cpp's format."""
    import gguf

    model, file = tiny.llama(), folder / "small.gguf"
    sizes = model.config
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(sizes.max_position_embeddings)
    writer.add_embedding_length(sizes.hidden_size)
    writer.add_block_count(sizes.num_hidden_layers)
    writer.add_feed_forward_length(sizes.intermediate_size)
    writer.add_head_count(sizes.num_attention_heads)
    writer.add_head_count_kv(sizes.num_key_value_heads)
    writer.add_layer_norm_rms_eps(sizes.rms_norm_eps)
    writer.add_vocab_size(sizes.vocab_size)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, sizes.num_hidden_layers)
    for name, weight in model.state_dict().items():
        stored = names.get_name(name, try_suffixes=(".weight",))
        if stored is not None:
            writer.add_tensor(stored, weight.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def corpus_file(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        import bz2
        import gzip
        import lzma

        import pyarrow as pa
        import pyarrow.parquet as pq

        file, documents = folder / name, texts(30)
        lines = "".join(json.dumps({"text": text}) + "\n" for text in documents).encode()
        packed = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".jsonl": bytes,
                  ".zst": lambda data: pa.compress(data, "zstd", asbytes=True)}  # fmt: skip
        if file.suffix == ".parquet":
            pq.write_table(pa.table({"text": documents}), file, row_group_size=8)
        else:
            file.write_bytes(packed[file.suffix](lines))
        return file

    return make


def census_folder(folder: Path) -> Path:
    scan(open_tiny(), texts(6), out=folder / "census", options=OPTIONS)
    return folder / "census"


def half_scan(folder: Path) -> Path:
    """A scan that was stopped before its census was written, with all shards."""
    from headscope.scan.shards import ScanFolder

    out, remove_work = folder / "scan", ScanFolder.remove_work
    ScanFolder.remove_work = lambda self: None  # type: ignore[method-assign]
    scan(open_tiny(), texts(6), out=out, options=OPTIONS)
    ScanFolder.remove_work = remove_work  # type: ignore[method-assign]
    for name in ("tally.safetensors", "examples.parquet", "census.parquet"):
        (out / name).unlink()
    return out


def quarter_scan(folder: Path) -> Path:
    """The same with one shard not measured yet."""
    out = half_scan(folder)
    (out / "work/000000.tally.safetensors").unlink()
    return out


def film_file(folder: Path) -> Path:
    from headscope.scope import EMBEDDED

    return Path(shutil.copy(EMBEDDED / "film.safetensors", folder / "film.safetensors"))


KINDS: dict[str, tuple[Callable[[Path], Path], str, str, Callable[[Path], None]]] = {
    "weights": (model_folder, "model.safetensors", "safetensors", open_model),
    "config": (model_folder, "config.json", "json", open_model),
    "tokenizer": (model_folder, "tokenizer.json", "json", open_model),
    "tokenizer_config": (model_folder, "tokenizer_config.json", "json", open_model),
    "gguf": (gguf_file, "", "gguf", open_model),
    "corpus.parquet": (corpus_file("corpus.parquet"), "", "parquet", read_corpus),
    "corpus.jsonl": (corpus_file("corpus.jsonl"), "", "anything", read_corpus),
    "corpus.jsonl.gz": (corpus_file("corpus.jsonl.gz"), "", "anything", read_corpus),
    "corpus.jsonl.xz": (corpus_file("corpus.jsonl.xz"), "", "anything", read_corpus),
    "corpus.jsonl.bz2": (corpus_file("corpus.jsonl.bz2"), "", "anything", read_corpus),
    "corpus.jsonl.zst": (corpus_file("corpus.jsonl.zst"), "", "anything", read_corpus),
    "census tally": (census_folder, "tally.safetensors", "safetensors", read_census),
    "census examples": (census_folder, "examples.parquet", "parquet", read_census),
    "census recipe": (census_folder, "recipe.json", "json", read_census),
    "scan rows": (quarter_scan, "work/000000.rows.safetensors", "safetensors", resume),
    "scan tally": (half_scan, "work/000000.tally.safetensors", "safetensors", resume),
    "scan packing": (half_scan, "work/packed.json", "json", resume),
    "film": (film_file, "", "safetensors", read_film),
    "card": (model_folder, "config.json", "json", read_card),
}  # fmt: skip


def main(folder: Path, kinds: list[str]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for kind in kinds or KINDS:
        child = os.fork()
        if child == 0:
            (folder / kind).mkdir()
            break_all(kind, folder / kind)
            os._exit(0)
        say(kind=kind, status=os.waitpid(child, 0)[1])


def break_all(kind: str, folder: Path) -> None:
    make, inner, breaks, opener = KINDS[kind]
    whole = make(folder)
    file = whole / inner if inner else whole
    data = file.read_bytes()
    target = file if kind == "card" else whole
    if opener is not resume:
        opener(target)
    kept = shutil.copytree(whole, folder / "kept") if opener is resume else None  # a resumed scan removes its work
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, broken in BREAKS[breaks](data):
        if kept is not None:
            shutil.rmtree(whole)
            shutil.copytree(kept, whole)
        file.write_bytes(broken)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        say(kind=kind, name=name, outcome="begun")
        say(kind=kind, name=name, **outcome(opener, target))
    signal.setitimer(signal.ITIMER_PROF, 0)
    say(kind=kind, grown=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def outcome(opener: Callable[[Path], None], target: Path) -> dict[str, Any]:
    try:
        opener(target)
    except HeadscopeError as error:
        return {"outcome": "refused", "said": str(error)}
    except Exception as error:
        return {"outcome": "failed", "said": f"{type(error).__module__}.{type(error).__name__}: {error}"[:500]}
    return {"outcome": "read"}


def say(**words: Any) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
