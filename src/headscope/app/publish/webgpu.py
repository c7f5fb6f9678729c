"""A second runtime for published models, which runs them on the visitor's graphics card through WebGPU.

It is larger than the one that headscope ships, so it is taken from an archive that the person gives: the npm package
of the same version, known by its hash.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from headscope.errors import InputError

if TYPE_CHECKING:
    import onnx

PACKAGE = "onnxruntime-web@1.30.0"
INTEGRITY = "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
"""What npm states of the archive; that of web/package-lock.json."""
FOLDER = "webgpu"
SCRIPT = "ort.webgpu.mjs"
RUNTIME = "ort.webgpu.wasm.gz"
MEMBERS = {
    SCRIPT: "package/dist/ort.webgpu.bundle.min.mjs",
    RUNTIME: "package/dist/ort-wasm-simd-threaded.asyncify.wasm",
}
ANGLES = ("Sin", "Cos")


def check_archive(archive: Path, integrity: str = INTEGRITY) -> None:
    """Refuse what is not npm's archive of the runtime, of exactly the version that the pages are built with."""
    how = f"get it with: npm pack {PACKAGE}, and give --webgpu the file that this writes"
    if not archive.is_file():
        raise InputError(f"{archive} is no file; WebGPU needs the archive of {PACKAGE}: {how}")
    with archive.open("rb") as file:
        found = "sha512-" + base64.b64encode(hashlib.file_digest(file, "sha512").digest()).decode("ascii")
    if found != integrity:
        raise InputError(f"{archive} is not the archive of {PACKAGE}: its hash is {found}, not {integrity}; {how}")


def write_webgpu(folder: Path, archive: Path | None) -> dict[str, str] | None:
    """Write the runtime's two files into the site, if there is an archive; their paths in the site."""
    if archive is None:
        return None
    (folder / FOLDER).mkdir()
    with tarfile.open(archive, "r:gz") as packed:
        for name, member in MEMBERS.items():
            file = packed.extractfile(member)
            assert file is not None, f"{PACKAGE} has {member}"
            content = file.read()
            (folder / FOLDER / name).write_bytes(gzip.compress(content, 9, mtime=0) if name == RUNTIME else content)
    return {"script": f"{FOLDER}/{SCRIPT}", "runtime": f"{FOLDER}/{RUNTIME}"}


def angle_nodes(graph: onnx.ModelProto) -> list[str]:
    """Nodes that turn positions into sines and cosines.

    WGSL promises them to 2^-11 between -π and π, and nothing beyond; rotary embeddings need more, so that a browser
    computes these few numbers on its processor.
    """
    return [node.name for node in graph.graph.node if node.op_type in ANGLES]
