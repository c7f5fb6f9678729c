"""Compare a scan with a plain forward pass over the same rows: ``python bench/scan.py --out FILE``.

Plain is the model with PyTorch's own fused attention, causal over packed rows, with the logits of one position. The
scan does the same and measures every head: entropy, distance, strongest key, five questions and their shuffled nulls,
bootstrap replicates, histograms, examples. Text is the standard library's source, so tokens repeat as in real text.

``--device cuda`` takes a model of Llama 3.1 8B's shape with random weights and rows of 8,192 and 32,768 tokens, each
one document, so that no time is saved by attention within short pieces. ``--longest`` finds the longest row that fits
into memory, for the scan and for eager attention that returns its weights, by doubling.

``--small`` measures the whole command on a GPU instead, from start to census (reading, tokenising, packing, hashing the
weights, tallies on disk, the report), on the shapes of GPT-2 small and Llama 3.2 1B in bfloat16, beside plain forward
passes over the same rows. The tokenizer is the embedded model's, a fast one like those of other models.
"""

from __future__ import annotations

import argparse
import copy
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import measure
import torch

from headscope.models.loading import open_model
from headscope.models.recording import OpenModel
from headscope.scan.corpus.packing import PackedRows, pack
from headscope.scan.corpus.packing_check import choose_row_format
from headscope.scan.measure import Measurer, Plan, model_inputs
from headscope.scan.options import ScanOptions

CUDA_TOKENS = 2**17
"""Tokens in a shard. While the GPU runs one row, the CPU adds the sums of the one before."""

EMBEDDED = Path(__file__).parents[1] / "src" / "headscope" / "models" / "embedded"


class Words:
    """A tokenizer for models without one: every word is a token, its id a hash."""

    is_fast = False

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [zlib.crc32(word.encode()) % self.vocabulary for word in text.split()]}

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return "".join(f"[{token}]" for token in ids)

    def convert_ids_to_tokens(self, token: int) -> str:
        return f"[{token}]"


def gpt2() -> tuple[Any, Any]:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(attn_implementation="sdpa")).eval(), Words(50257)


def embedded() -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(EMBEDDED, dtype=torch.float32, attn_implementation="sdpa").eval()
    return model, AutoTokenizer.from_pretrained(EMBEDDED)


def llama() -> tuple[Any, Any]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, max_position_embeddings=2**20, attn_implementation="sdpa",
    )  # fmt: skip
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            return LlamaForCausalLM(config).eval(), Words(128256)
    finally:
        torch.set_default_dtype(torch.float32)


def texts() -> list[str]:
    """The standard library's modules, one document each, longest first so that rows fill."""
    paths = sorted(Path(os.__file__).parent.glob("*.py"), key=lambda path: (-path.stat().st_size, path.name))
    return [path.read_text(encoding="utf-8", errors="replace") for path in paths[:80]]


def one_text(words: int) -> list[str]:
    """The same modules, concatenated and repeated, as one document of that many words."""
    found = " ".join(texts()).split()
    return [" ".join((found * -(-words // len(found)))[:words])]


class Case:
    """One model and context length: the rows, the plain pass and the scan of them."""

    def __init__(
        self, name: str, made: tuple[Any, Any], context: int, rows: int, documents: Sequence[str] | None = None
    ) -> None:
        self.name, self.context = name, context
        self.batch = rows if documents is None else 1
        self.plain_model, tokenizer = made
        self.model: OpenModel = open_model(_with_own_config(self.plain_model), tokenizer)
        row_format = choose_row_format(self.model, context)
        stream = ((number, self.model.processor.token_ids(text)) for number, text in enumerate(documents or texts()))
        self.rows: PackedRows = next(iter(pack(stream, row_format, rows)))
        options = ScanOptions(batch=self.batch)
        plan = Plan.make(self.model, options, row_format, torch.get_num_threads(), "document")
        self.measurer = Measurer(self.model, plan)

    def plain(self) -> None:
        with torch.no_grad():
            for rows in self.rows.batches(self.batch):
                self.plain_model(**model_inputs(self.model, rows, None), use_cache=False)

    def plain_with_logits(self) -> None:
        with torch.no_grad():
            self.plain_model(self.rows.ids, use_cache=False)

    def scan(self) -> None:
        self.measurer.measure(self.rows)


def _with_own_config(model: Any) -> Any:
    """The same weights in a second model, so that one keeps PyTorch's attention while the other is observed."""
    with torch.device("meta"):
        twin = type(model)(copy.deepcopy(model.config))
    twin.load_state_dict(model.state_dict(), assign=True)
    twin.tie_weights()
    for (name, buffer), (_, own) in zip(model.named_buffers(), twin.named_buffers(), strict=True):
        if own.device.type == "meta":
            place, _, last = name.rpartition(".")
            twin.get_submodule(place).register_buffer(last, buffer, persistent=False)
    return twin.eval()


def cpu_row(case: Case, seconds: float) -> dict[str, Any]:
    contenders: dict[str, Callable[[], None]] = {
        "plain": case.plain, "plain_with_logits": case.plain_with_logits, "scan": case.scan,
    }  # fmt: skip
    timing = measure.interleaved(contenders, seconds=seconds, least=5)
    tokens = case.rows.ids.numel()
    found = {
        "model": case.name, "context": case.context, "tokens": tokens, "pieces": len(case.rows.pieces),
        **{f"{name}_ms": timing[name] for name in contenders},
        **{f"{name}_tokens_per_second": round(tokens / timing[name].median_ms * 1e3) for name in contenders},
        "ratio": round(timing["plain"].median_ms / timing["scan"].median_ms, 3),
        "ratio_with_logits": round(timing["plain_with_logits"].median_ms / timing["scan"].median_ms, 3),
        "goal": 0.85 if case.name == "gpt2-shape" else 0.7,
    }  # fmt: skip
    print(f"{case.name}, {case.context}: {found['ratio']} of plain, goal {found['goal']}")
    return found


def whole_scan_row(name: str, made: tuple[Any, Any], max_tokens: int) -> dict[str, Any]:
    """A whole scan: reading, tokenising, shards on disk, the census."""
    from headscope.scan.run import scan  # it needs pyarrow, which a bare GPU machine may not have

    model = open_model(_with_own_config(made[0]), made[1])
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        census = scan(model, texts(), out=Path(folder) / "out", options=ScanOptions(max_tokens=max_tokens))
        took = time.perf_counter() - began
    tokens = census.recipe.data["result"]["tokens"]
    return {"model": name, "whole_scan_tokens": tokens, "whole_scan_wall_tokens_per_second": round(tokens / took)}


def cuda_row(case: Case, seconds: float) -> dict[str, Any]:
    contenders: dict[str, Callable[[], None]] = {"plain": case.plain, "scan": case.scan}
    timing = measure.interleaved(contenders, device="cuda", seconds=seconds, least=3)
    peak = {name: measure.peak_bytes(work, "cuda") for name, work in contenders.items()}
    found = {
        "model": case.name, "context": case.context, "tokens": case.rows.ids.numel(),
        **{f"{name}_ms": timing[name] for name in contenders},
        "times_plain": round(timing["scan"].median_ms / timing["plain"].median_ms, 3), "goal_times_plain": 1.15,
        **{f"{name}_peak_bytes": peak[name] for name in contenders},
    }  # fmt: skip
    print(f"{case.name}, {case.context}: {found['times_plain']} times plain", timing, flush=True)
    return found


def small(name: str, device: str) -> tuple[Any, Any]:
    """The shape of a small model that people use, in bfloat16 on a GPU, and a tokenizer. *Tiny* tries the program."""
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    if name != "llama-1b":
        sizes = {"n_embd": 48, "n_layer": 2, "n_head": 4} if name == "tiny" else {}
        kind, config = GPT2LMHeadModel, GPT2Config(n_positions=4096, **sizes)
    else:
        kind, config = LlamaForCausalLM, LlamaConfig(
            vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
            num_key_value_heads=8, head_dim=64, max_position_embeddings=131072,
        )  # fmt: skip
    torch.manual_seed(0)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    with torch.device(device):
        made = kind._from_config(config, attn_implementation="sdpa", dtype=dtype).eval()
    return made, AutoTokenizer.from_pretrained(EMBEDDED)


def many_texts(count: int, words: int) -> list[str]:
    """So many modules of the standard library, with so many words in all."""
    found: list[str] = []
    left = words
    for path in sorted(Path(os.__file__).parent.rglob("*.py")):
        if "site-packages" in str(path) or left <= 0 or len(found) == count:
            continue
        text = path.read_text(encoding="utf-8", errors="replace").split()[:1400]
        if len(text) > 300:
            found.append(" ".join(text))
            left -= len(text)
    return found


def small_row(name: str, made: tuple[Any, Any], context: int, documents: Sequence[str]) -> dict[str, Any]:
    """A whole scan on a GPU, the faster of two after one that compiles kernels. Plain passes take the same rows."""
    from headscope.scan.run import scan

    plain, tokenizer = made
    model = open_model(_with_own_config(plain), tokenizer)
    options = ScanOptions(context=context)
    taken, measured = [], {}
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            census = scan(model, list(documents), out=Path(folder) / "out", options=options)
            taken.append(time.perf_counter() - began)
    batch = census.recipe.data["rows_in_pass"]
    row_format = choose_row_format(model, context)
    stream = ((number, model.processor.token_ids(text)) for number, text in enumerate(documents))
    packed = list(pack(stream, row_format, batch))
    plan = Plan.make(model, options, row_format, 1, "document")
    measurer = Measurer(model, plan)

    @torch.no_grad()
    def forwards() -> None:
        for rows in packed:
            plain(**model_inputs(model, rows, None), use_cache=False)

    def measuring() -> None:
        measurer.measure_all(packed, lambda _: None)

    for what, work in {"plain": forwards, "measuring": measuring}.items():
        measured[what] = min(_seconds(work) for _ in range(2))
    tokens = census.recipe.data["result"]["tokens"]
    found = {
        "model": f"{name}-shape", "context": context, "rows_in_pass": batch, "tokens": tokens,
        "documents": len(documents), "plain_s": round(measured["plain"], 3), "first_scan_s": round(taken[0], 3),
        "scan_s": round(min(taken[1:]), 3), "scans_s": [round(each, 3) for each in taken],
        "measuring_s": round(measured["measuring"], 3),
        "scan_tokens_per_second": round(tokens / min(taken[1:])),
        "plain_tokens_per_second": round(tokens / measured["plain"]),
        "times_plain": round(min(taken[1:]) / measured["plain"], 2),
        "goal_times_plain": 1.5 if name == "llama-1b" else 3.0,
    }  # fmt: skip
    print(found, flush=True)
    model.close()
    return found


def _seconds(work: Callable[[], None]) -> float:
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    wait()
    began = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - began


def longest(made: tuple[Any, Any], kind: str, context: int, patience: float) -> Iterator[dict[str, Any]]:
    """Double the context until it does not fit, or the next pass, four times as long, would exceed ``patience``."""
    row = {"model": "llama-3.1-8b-shape", "longest": kind, "stopped": "not yet"}
    while True:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        try:
            _one_pass(made, context, kind)
            torch.cuda.synchronize()
        except torch.OutOfMemoryError:
            yield row | {"stopped": "out of memory", "too_long": context}
            return
        took = time.perf_counter() - began
        row |= {"tokens": context, "seconds": round(took, 1), "peak_bytes": torch.cuda.max_memory_allocated()}
        yield row | ({"stopped": "out of time"} if 4 * took > patience else {})
        if 4 * took > patience:
            return
        context *= 2


def _one_pass(made: tuple[Any, Any], context: int, kind: str) -> None:
    if kind == "scan":
        Case("llama-3.1-8b-shape", made, context, 1, one_text(context)).scan()
        return
    model = made[0]
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            ids = torch.randint(1000, (1, context), device="cuda")
            model(ids, use_cache=False, output_attentions=True, logits_to_keep=1)
    finally:
        model.set_attn_implementation(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--longest", action="store_true")
    parser.add_argument("--small", action="store_true", help="whole scans of small models on a GPU")
    parser.add_argument("--models", nargs="+", choices=["tiny", "gpt2", "llama-1b"], default=["gpt2", "llama-1b"])
    parser.add_argument("--texts", type=int, default=400, help="documents that small models read, at most")
    parser.add_argument("--contexts", nargs="+", type=int, default=[1024, 4096], help="of small models")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds, for the longest single pass")
    parser.add_argument("--out", default="bench/results/scan-cpu.json")
    chosen = parser.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    about = measure.machine(chosen.device)
    if chosen.small:
        rows, documents = [], many_texts(chosen.texts, 230_000)
        for name, context in ((name, context) for context in chosen.contexts for name in chosen.models):
            try:
                rows.append(small_row(name, small(name, chosen.device), context, documents))
            except Exception as error:  # the others are measured all the same
                rows.append({"model": name, "context": context, "failed": f"{type(error).__name__}: {error}"[:400]})
                print(rows[-1], flush=True)
            measure.write(chosen.out, benchmark="whole scan", about=about, rows=rows)
    elif chosen.device == "cuda":
        made = llama()
        rows = []
        for length in (8192, 32768):
            count = CUDA_TOKENS // length
            case = Case("llama-3.1-8b-shape", made, length, count, count * one_text(length))
            rows.append(cuda_row(case, chosen.seconds))
            measure.write(chosen.out, benchmark="scan", about=about, rows=rows)
        for kind, shortest in (("eager", 1024), ("scan", 65536)) if chosen.longest else ():
            for row in longest(made, kind, shortest, chosen.patience):
                print(row, flush=True)
                rows = [*(other for other in rows if other.get("longest") != kind), row]
                measure.write(chosen.out, benchmark="scan", about=about, rows=rows)
    else:
        made = gpt2()
        rows = [cpu_row(Case("gpt2-shape", made, 1024, chosen.rows), chosen.seconds)]
        rows.append(whole_scan_row("gpt2-shape", made, 8192))
        if (EMBEDDED / "config.json").exists():
            ours = embedded()
            rows.append(cpu_row(Case("embedded", ours, 1024, 4 * chosen.rows), chosen.seconds))
            rows.append(whole_scan_row("embedded", ours, 32768))
        measure.write(chosen.out, benchmark="scan", about=about, rows=rows)


if __name__ == "__main__":
    main()
