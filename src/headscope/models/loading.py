"""Open a model from a hub name, a folder, a GGUF file or a PyTorch module."""

from __future__ import annotations

import inspect
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from torch import Tensor, nn

from headscope.attention.progress import report_progress
from headscope.errors import HeadscopeError, InputError, ModelError, first_line
from headscope.models.any_torch.arguments import Arguments, bind
from headscope.models.any_torch.compiled import refuse_empty, refuse_script
from headscope.models.config_checks import (
    NO_HEAD,
    base_without_head,
    read_gguf,
    refuse_huge_config,
    refuse_huge_headers,
    refuse_huge_tokenizers,
    refuse_missing_weights,
    refuse_more_weights_than_bytes,
    refuse_other_shapes,
    weight_bytes,
    wrong_fields,
)
from headscope.models.fetch import KNOWN, fetched, is_gguf, need_gguf_packages, ollama_file
from headscope.models.inputs.media import KEYS, MediaProcessors, split_processor
from headscope.models.inputs.tokens import InputProcessor, add_start_token, gguf_start_token
from headscope.models.modes import own_precision
from headscope.models.pruning.pruned_modeling import pruned
from headscope.models.recording import OpenModel
from headscope.models.structure.sites import NoInterfaceError, input_embedding


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to open a model. ``probe`` are inputs for the first pass, where headscope cannot guess them; ``processor`` is
    the model's processor of pictures or sound.

    For a module that is no transformers model: ``inputs`` are what it is called with once (a tensor, a tuple, tensors
    by name, or a function that runs it), ``grid`` the rows and columns of its patches, and ``sites`` its W_O and heads
    where they are not found, by path: ``{"blocks.*.attn": {"output": "proj", "n_heads": 12}}``."""

    device: str | torch.device | None = None
    dtype: torch.dtype | None = None
    device_map: Any = None
    revision: str | None = None
    trust_remote_code: bool = False
    local_files_only: bool = False
    probe: Mapping[str, Tensor] | None = None
    processor: Any = None
    name: str | None = None
    inputs: Any = None
    sites: Mapping[str, Mapping[str, Any]] | None = None
    grid: tuple[int, int] | None = None


def open_model(source: Any, tokenizer: Any = None, **given: Any) -> OpenModel:
    """Open a hub name, a local folder, a GGUF file, or a model object. ``given``: see ``Options``."""
    known = {field.name for field in fields(Options)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise InputError(f"load does not know the option {', '.join(unknown)}; it knows {', '.join(sorted(known))}")
    options = Options(**given)
    with own_precision():
        if isinstance(source, nn.Module):
            return _from_module(source, tokenizer, options)
        if isinstance(source, str | Path) and str(source):
            return _from_files(source, tokenizer, options)
    what = "a model without a name" if source == "" else type(source).__name__
    raise InputError(f"cannot open {what}; give a hub name, a folder, a GGUF file, or a model object")


def _from_module(model: nn.Module, tokenizer: Any, options: Options) -> OpenModel:
    from transformers import PreTrainedModel

    from headscope.models.huggingface.model import HuggingFaceModel

    model = getattr(model, "_orig_mod", model)  # torch.compile wraps it; a compiled graph cannot be observed
    unwrap: Any = getattr(model, "get_base_model", None)
    if not isinstance(model, PreTrainedModel) and unwrap is not None:
        model = unwrap()  # adapters wrap a model, and are inside its layers
    if not isinstance(model, PreTrainedModel):
        return _other_module(model, tokenizer, options)
    offloaded = getattr(model, "hf_device_map", None) or any(hasattr(part, "_hf_hook") for part in model.modules())
    if any(weight.device.type == "meta" for weight in model.parameters()) and not offloaded:
        raise ModelError(f"{type(model).__name__} has no weights (they are on the meta device); load them first")
    name = options.name or str(getattr(model.config, "_name_or_path", "")) or type(model).__name__
    processor = input_processor(model, tokenizer, options.processor)
    name = Path(name).name or name
    probe = options.probe if options.inputs is None else options.inputs
    if probe is not None and not isinstance(probe, Mapping):
        return _by_markers(model, processor, name, bind(model, probe), options)
    try:
        return HuggingFaceModel(model, processor, name, probe)
    except NoInterfaceError as error:
        arguments = bind(model, {"use_cache": False, "return_dict": True} | dict(error.probe))
        return _by_markers(
            model,
            processor,
            name,
            arguments,
            options,
            said=f"{type(model).__name__} does not call transformers' attention interface",
        )


def _by_markers(
    model: nn.Module, processor: InputProcessor, name: str, arguments: Arguments, options: Options, said: str = ""
) -> OpenModel:
    """A module that calls no attention interface: see ``any_torch``. ``said``: that transformers' was not used."""
    from headscope.models.any_torch.model import AnyTorchModel, Hints

    notes = (NO_INTERFACE.format(kind=type(model).__name__),) if said else ()
    hints = Hints(sites=options.sites, grid=options.grid, notes=notes)
    try:
        return AnyTorchModel(model, processor, name, arguments, hints)
    except ModelError as error:
        if not said:
            raise
        raise ModelError(f"{error}. {said}") from error


NO_INTERFACE = (
    "{kind} does not call transformers' attention interface; its attention was found in the functions that it calls"
)


def _other_module(model: nn.Module, tokenizer: Any, options: Options) -> OpenModel:
    """A module built on our own attention, or any other that is given inputs."""
    from headscope.models.native import NativeModel, as_transformers

    name = options.name or type(model).__name__
    if options.inputs is None:
        return NativeModel(model, tokenizer, name)
    refuse_script(model)
    refuse_empty(model)
    media = MediaProcessors(both=options.processor) if callable(options.processor) else MediaProcessors()
    processor = InputProcessor(as_transformers(tokenizer), vocabulary=None, context=None, media=media)
    return _by_markers(model, processor, name, bind(model, options.inputs), options)


def input_processor(model: nn.Module, tokenizer: Any, processor: Any = None) -> InputProcessor:
    """The tokenizer and the media processors, with the limits in the model's config."""
    tokenizer, media = split_processor(tokenizer)
    if processor is not None:
        other, media = split_processor(processor)
        tokenizer = other if tokenizer is None else tokenizer
    config: Any = model.config
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    table = input_embedding(model)
    rows = table.weight.shape[0] if isinstance(table, nn.Embedding) else None
    lengths = [*(getattr(text, key, None) for key in _LENGTHS), getattr(tokenizer, "model_max_length", None)]
    stated = [length for length in lengths if isinstance(length, int) and 0 < length < 10**9]
    start = None
    if getattr(config, "is_encoder_decoder", False):
        start = getattr(config, "decoder_start_token_id", None)
        if start is None:
            start = getattr(config, "bos_token_id", None) or getattr(config, "pad_token_id", None) or 0
    return InputProcessor(tokenizer, vocabulary=rows, context=min(stated, default=None), start=start, media=media)


_LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "max_target_positions")


def _from_files(source: str | Path, tokenizer: Any, options: Options) -> OpenModel:
    if str(source).startswith("ollama:"):
        options = replace(options, name=options.name or str(source))
        source = ollama_file(str(source))
    kept, file = fetched(source), Path(KNOWN[str(source)].inside if source in KNOWN else source).expanduser()
    source = kept or source
    path = Path(source).expanduser()
    gguf = path.name if is_gguf(path) else None
    where = _place(source, path, gguf)
    shared: dict[str, Any] = {
        "local_files_only": options.local_files_only,
        "trust_remote_code": options.trust_remote_code,
    }
    if options.revision:
        shared["revision"] = options.revision
    if gguf:
        need_gguf_packages(str(source))
        shared["gguf_file"] = gguf
    if not Path(where).exists() and not options.local_files_only:
        refuse_unreachable(where)
    with _stages(gguf) as stage:
        told = read_gguf(path) if gguf else None
        stage("unpacking its weights")
        model, notes = _load_weights(where, str(source), options, shared)
        stage("reading its tokenizer")
        if tokenizer is None:
            tokenizer = _load_tokenizer(where, shared)
        said = gguf_start_token(told.fields) if told is not None and tokenizer is not None else (None, None)
        notes += filter(None, [add_start_token(tokenizer, gguf or "its tokenizer_config.json", *said)])
    if options.processor is None and not gguf:
        options = replace(options, processor=_load_processor(model, where, shared))
    name = path.stem if gguf else path.resolve().name if path.is_dir() else str(source)
    try:
        opened = _from_module(model, tokenizer, options if options.name else replace(options, name=name))
    except (RuntimeError, ArithmeticError, LookupError) as error:
        raise ModelError(f"{source} opens but does not run ({first_line(error)}); its config is broken") from error
    opened.notes = [*opened.notes, *notes]
    if gguf:
        dtype = next(model.parameters()).dtype
        opened.notes = [*opened.notes, AS_SERVED, f"weights come from {gguf}, unpacked to {dtype}"]
    elif kept and is_gguf(file):
        opened.notes = [*opened.notes, AS_SERVED, f"weights come from {file.name}, unpacked in {kept}"]
    if tokenizer is None and (path / "tokenizer.json").is_file():
        opened.notes = [*opened.notes, "its tokenizer.json could not be read, so it reads token ids and no text"]
    return opened


AS_SERVED = (
    "llama.cpp computes with the packed weights, so its attention weights differ from these. On one text with "
    "SmolLM2-135M-Instruct in Q4_1 they differed by up to 0.06; no other model or packing was measured"
)


def _place(source: str | Path, path: Path, gguf: str | None) -> str:
    """Return the folder or hub name to load from; reject what is neither."""
    if gguf and not path.is_file():
        raise ModelError(f"there is no file {path}")
    if gguf:
        return str(path.parent)
    if path.is_dir():
        _check_folder(path)
    elif path.exists():
        raise ModelError(f"{path} is neither a folder with config.json and safetensors nor a .gguf file")
    elif isinstance(source, Path) or not re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", source):  # not a hub name
        raise ModelError(f"there is no folder {path}; give one that holds config.json and safetensors")
    return str(path) if path.exists() else str(source)


@contextmanager
def _stages(gguf: str | None) -> Iterator[Callable[[str], None]]:
    """Show which part of opening a GGUF file is at work: most of it is in no progress bar of transformers."""
    from transformers.utils import logging

    if gguf is None:
        yield lambda stage: None
        return
    with logging.tqdm(total=2, desc=f"opening {gguf}", bar_format="{desc}: {elapsed}") as bar:

        def show(stage: str) -> None:
            report_progress(f"opening {gguf}: {stage}", bar.n, 2)
            bar.set_description_str(f"opening {gguf}: {stage}")
            bar.update()

        yield show


def _check_folder(folder: Path) -> None:
    """Refuse a folder that transformers cannot load, or only by unpickling."""
    if not (folder / "config.json").is_file():
        inside = ", ".join(sorted(p.name for p in folder.iterdir())[:6]) or "nothing"
        raise ModelError(f"{folder} has no config.json (it holds {inside}); give a folder saved with save_pretrained")
    refuse_huge_tokenizers(folder)
    if any(folder.glob("*.safetensors")):
        refuse_huge_headers(folder)
        return
    pickles = sorted(p.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for p in folder.glob(pattern))
    if pickles:
        raise ModelError(_pickled(str(folder), pickles[0]))
    raise ModelError(f"{folder} has a config.json but no safetensors weights; save it with save_pretrained")


def _pickled(where: str, file: str) -> str:
    return (
        f"{where} holds its weights as a pickle ({file}), which can run code when it is opened; headscope reads "
        "safetensors or GGUF only: open it once with transformers and save_pretrained() it as safetensors"
    )


def _load_weights(where: str, source: str, options: Options, shared: dict[str, Any]) -> tuple[nn.Module, list[str]]:
    """The model, and notes on what its files do not hold."""
    import transformers

    notes: list[str] = []

    try:
        config = transformers.AutoConfig.from_pretrained(where, **shared)
        refuse_huge_config(source, config)
        kind = _model_class(config)
        if getattr(config, "pruned_heads", None) is not None:
            kind = pruned(kind)
        if Path(where).is_dir():
            refuse_more_weights_than_bytes(source, kind, config, weight_bytes(Path(where), shared.get("gguf_file")))
        dtype = options.dtype or (torch.float32 if _device(options).type == "cpu" else "auto")
        if "gguf_file" not in shared:
            shared = {**shared, "use_safetensors": True}
        device_map = {"device_map": options.device_map} if options.device_map is not None else {}
        with no_progress_bar(Path(where).is_dir() and "gguf_file" not in shared):
            load = {"dtype": dtype, "output_loading_info": True, **shared, **device_map}
            model, loaded = kind.from_pretrained(where, **load)
            without_head = base_without_head(kind, config, loaded["missing_keys"])
            if without_head is not None:
                notes.append(NO_HEAD.format(kind=kind.__name__, base=without_head.__name__))
                model, loaded = without_head.from_pretrained(where, **load)
        refuse_missing_weights(source, loaded["missing_keys"])
        if "gguf_file" in shared:
            refuse_other_shapes(source, model)
    except HeadscopeError:
        raise
    except Exception as error:  # a broken config or file can fail anywhere, with an error of any kind
        wrong = wrong_fields(Path(where))
        raise ModelError(f"{source} {wrong}; its config is broken" if wrong else _explain(source, error)) from error
    if options.device_map is None:
        model.to(_device(options))
    return model.eval(), notes


@contextmanager
def no_progress_bar(quiet: bool) -> Iterator[None]:
    """Hide transformers' progress bar inside the block: local weights load at once."""
    from transformers.utils import logging

    quiet = quiet and logging.is_progress_bar_enabled()
    if quiet:
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if quiet:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _device(options: Options) -> torch.device:
    if options.device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(options.device)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device={str(options.device)!r} cannot be used here ({first_line(error)}). Use 'cpu'"
        ) from error
    return device


def _model_class(config: Any) -> Any:
    """The class that the checkpoint names, else the first auto class that knows its family."""
    import transformers

    named = (getattr(config, "architectures", None) or [None])[0]
    known = getattr(transformers, str(named), None)
    if isinstance(known, type) and issubclass(known, transformers.PreTrainedModel):
        return known
    for auto in ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM", "AutoModel"):
        kind = getattr(transformers, auto)
        if type(config) in kind._model_mapping:
            return kind
    return transformers.AutoModel


# What transformers raises where a folder has no tokenizer or processor.
_MISSING = (OSError, ValueError, ImportError, KeyError, TypeError, AttributeError)


def _load_tokenizer(where: str, shared: dict[str, Any]) -> Any:
    import transformers

    try:
        return transformers.AutoTokenizer.from_pretrained(where, **shared)
    except _MISSING:
        return None  # a picture or sound model; text is refused when it is given
    except BaseException as error:  # what tokenizers raises at a broken file, a panic too
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ModelError(f"the tokenizer in {where} is broken ({error}); fetch it again, or pass tokenizer=") from error


def _load_processor(model: nn.Module, where: str, shared: dict[str, Any]) -> Any:
    """Load the processor of pictures or sound that was saved with the weights, if the model takes any."""
    import transformers

    takes = frozenset(inspect.signature(model.forward).parameters)
    if not takes & KEYS:
        return None
    for kind in ("AutoProcessor", "AutoImageProcessor", "AutoFeatureExtractor"):
        try:
            made = getattr(transformers, kind).from_pretrained(where, **shared)
        except _MISSING:
            continue
        if split_processor(made)[1] != MediaProcessors():
            return made
    return None  # pictures and sound are refused when they are given; tensors are read


def _explain(source: str, error: Exception) -> str:
    message = str(error)
    if "trust_remote_code" in message or "custom code" in message:
        return (
            f"{source} asks to run Python code of its own; headscope does not unless you say so: read that code, and "
            "if you trust it pass trust_remote_code=True"
        )
    if "safetensors" in message and ("does not appear to have" in message or "no file named" in message.lower()):
        return _pickled(source, "no safetensors file was found")
    if isinstance(error, KeyError) and error.args:
        return f"{source} cannot be opened: transformers does not know {message}, which its config or files name"
    if "ignore_mismatched_sizes" in message:
        return f"{source} cannot be opened: its weights have other shapes than its config says; fetch it again"
    if "alidation error" in message:  # of several lines: the field, then what it should be
        wrong = " ".join(message.split()).partition("Error: ")[2].partition(". Errors: ")[0]
        return f"{source} cannot be opened: {wrong}"
    if isinstance(error, ValueError | OSError | ImportError):
        return f"{source} cannot be opened: {first_line(error)}"
    return (
        f"{source} cannot be opened: transformers failed at its config or weights ({first_line(error)}); fetch it again"
    )


PATIENCE = 5.0  # seconds


def refuse_unreachable(name: str) -> None:
    """Refuse a model that is not in the cache while the hub cannot be reached: its client would retry for 23 s."""
    from huggingface_hub import constants, try_to_load_from_cache

    try:
        if isinstance(try_to_load_from_cache(name, "config.json"), str) or getproxies():
            return
    except ValueError as error:  # no name that the hub could have
        raise ModelError(f"{name!r} is neither a folder nor a model's name: {first_line(error)}") from error
    hub = urlsplit(constants.ENDPOINT)
    try:
        if constants.HF_HUB_OFFLINE:
            raise OSError("HF_HUB_OFFLINE is set")
        socket.create_connection((hub.hostname or "", hub.port or 443), PATIENCE).close()
    except OSError as error:
        raise ModelError(
            f"{name} is not on this machine, and {hub.hostname} cannot be reached ({error.strerror or error}). Give a "
            "folder that holds config.json and safetensors, or no name for the built-in model"
        ) from error
