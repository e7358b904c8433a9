"""A cache of prompt embeddings: encoding takes seconds, and with offload moves gigabytes."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

import torch

Embeddings = dict[str, torch.Tensor]


class EmbeddingCache:
    """Keeps the embeddings that were used last, up to a number of bytes, on the CPU."""

    def __init__(self, max_bytes: int = 512 << 20) -> None:
        self.max_bytes = max_bytes
        self.size = 0
        self._entries: OrderedDict[str, Embeddings] = OrderedDict()

    @staticmethod
    def key(weights: str, prompt: str, negative: str, guided: bool) -> str:
        """Returns the digest under which the embeddings of a prompt are kept."""
        text = "\0".join([weights, prompt, negative if guided else "", str(guided)])
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()

    def get(self, key: str, device: torch.device) -> Embeddings | None:
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return {name: tensor.to(device) for name, tensor in found.items()}

    def put(self, key: str, embeddings: Embeddings) -> None:
        self.drop(key)
        kept = {name: tensor.detach().to("cpu", copy=True) for name, tensor in embeddings.items()}
        self._entries[key] = kept
        self.size += _bytes(kept)
        while self.size > self.max_bytes:
            self.drop(next(iter(self._entries)))

    def drop(self, key: str) -> None:
        """Forgets one prompt, if it is known."""
        self.size -= _bytes(self._entries.pop(key, {}))

    def clear(self) -> None:
        """Forgets all prompts."""
        self._entries.clear()
        self.size = 0

    def __len__(self) -> int:
        return len(self._entries)


def _bytes(embeddings: Embeddings) -> int:
    return sum(tensor.nbytes for tensor in embeddings.values())
