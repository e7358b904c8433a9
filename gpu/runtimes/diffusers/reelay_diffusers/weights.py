"""The files of a model: where they are, whether they can be used, and their digest."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

from reelay_runtime import InvalidInput, ModelCrash

from .settings import Adapter, Settings

PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
USED = {".safetensors", ".json", ".txt", ".model"}
LIBRARIES = {"diffusers", "transformers"}
MAX_HEADER = 100 << 20


def find(settings: Settings) -> Path:
    """Returns the folder of a model's weights. Only with hub it may download them.

    Without them it raises ModelCrash: another machine may have them.
    """
    folder = Path(settings.weights)
    if not settings.hub and folder.is_dir():
        return folder
    if not settings.hub and folder.is_absolute():
        raise ModelCrash(f"The weights {settings.weights!r} are not a folder on this machine.")

    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(
                settings.weights,
                revision=settings.revision or None,
                allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model"],
                local_files_only=not settings.hub,
            )
        )
    except (LocalEntryNotFoundError, HfHubHTTPError, ValueError) as error:
        raise ModelCrash(
            f"The weights {settings.weights!r} are neither a folder nor in the cache of this machine. "
            f"To download them, add the setting hub. ({error})"
        ) from error


def check(folder: Path) -> str:
    """Returns the digest of a folder of weights.

    The digest covers the names and sizes of the files, the headers of the safetensors files
    and the contents of the JSON files, but not the tensors: to hash these would take longer
    than to load them. It raises InvalidInput for weights that are not safetensors, and
    ModelCrash for a file that is cut short.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    _refuse_pickles(folder, files)
    _refuse_libraries(folder)
    digest = hashlib.sha256()
    for path in files:
        name = path.relative_to(folder).as_posix()
        # Downloads leave notes in hidden folders, with the time.
        if path.suffix not in USED or "/." in f"/{name}":
            continue
        if path.suffix == ".safetensors":
            content = _header(path)
        elif path.suffix == ".json":
            content = path.read_bytes()
        else:
            content = b""
        digest.update(f"{name}\0{path.stat().st_size}\0".encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()


def _refuse_pickles(folder: Path, files: list[Path]) -> None:
    safe = {path.parent for path in files if path.suffix == ".safetensors"}
    for path in files:
        if path.suffix in PICKLES and path.parent not in safe:
            raise InvalidInput(
                f"{path.relative_to(folder)} can run any code when it is loaded, and there is no "
                ".safetensors file beside it. Convert the weights to safetensors."
            )


def _refuse_libraries(folder: Path) -> None:
    """Refuses a model whose parts come from anywhere but diffusers and transformers."""
    index = folder / "model_index.json"
    if not index.is_file():
        raise InvalidInput(f"{folder} has no model_index.json; it is not the folder of a pipeline.")
    for name, part in json.loads(index.read_bytes()).items():
        if isinstance(part, list) and part and part[0] is not None and part[0] not in LIBRARIES:
            raise InvalidInput(f"model_index.json takes {name} from {part[0]!r}, which is not allowed.")


def _header(path: Path) -> bytes:
    """Returns the header of a safetensors file. It raises ModelCrash unless the file is whole."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else MAX_HEADER
        header = file.read(length) if length < MAX_HEADER else b""
    try:
        described = json.loads(header)
        ends = [part["data_offsets"][1] for name, part in described.items() if name != "__metadata__"]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ModelCrash(f"{path} is damaged: it has no valid header. Copy it again.") from error
    if (needed := 8 + length + max(ends, default=0)) != size:
        raise ModelCrash(f"{path} is cut short: it has {size} bytes of {needed}. Copy it again.")
    return header


def check_adapter(adapter: Adapter) -> None:
    """Raises unless the file of an adapter is the one that the settings name."""
    try:
        with adapter.path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidInput(f"The adapter {adapter.path} cannot be read: {error}.") from error
    if found != adapter.sha256:
        raise ModelCrash(f"The adapter {adapter.path} has the SHA-256 {found}, not {adapter.sha256}.")
