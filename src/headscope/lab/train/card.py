"""The card of a trained model: what it ran on, and whether a run that is resumed ends with the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

SAME = "Killed and resumed, this run ends with the same bytes of weights and film as a run that was never interrupted."
ON_GPU = (
    "Not the same bytes: a GPU adds gradients in an order that varies, so the last digits of weights and film differ "
    "from run to run, resumed or not."
)
MOVED = (
    "Not the same bytes: the run was resumed where numbers are added in another order. Weights and film differ in "
    "their last digits from a run on one machine."
)


def machine(device: torch.device) -> dict[str, Any]:
    """What decides the order in which numbers are added: the device, threads and the version of PyTorch."""
    threads = torch.get_num_threads() if device.type == "cpu" else None
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu.get_cpu_capability()
    return {"device": device.type, "name": name, "threads": threads, "torch": torch.__version__}


def card(step: int, total: int, machines: Sequence[dict[str, Any]]) -> str:
    """The card in Markdown; each machine has the ``step`` from which the run was on it."""
    if any(each["device"] != "cpu" for each in machines):
        same = ON_GPU
    else:
        same = SAME if len(machines) == 1 else MOVED
    lines = [
        f"- from step {each['step']}: {each['device']} ({each['name']}), PyTorch {each['torch']}"
        + (f", threads: {each['threads']}" if each["threads"] else "")
        for each in machines
    ]
    return "\n".join([f"# A model trained by headscope: step {step} of {total}", "", *lines, "", same, ""])
