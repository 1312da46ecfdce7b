"""Prompts such as "maze F 0 2 9 0 k 0 5 7 0" as the embeddings that a FLUX transformer takes from its text encoder. There
is none here: a word has a fixed random vector, and so has its place."""

from __future__ import annotations

import torch
from fields import REGIMES
from torch import Tensor

WORDS = (*(name for name, _, _ in REGIMES), "F", "k", *"0123456789", "")
TOKENS = 16
WIDTH = 128


def _tables(device: torch.device) -> tuple[Tensor, Tensor]:
    """Vectors of words and of places, from a seed of their own, the same on any device."""
    generator = torch.Generator().manual_seed(20)
    words = torch.randn(len(WORDS), WIDTH, generator=generator)
    places = torch.randn(TOKENS, WIDTH, generator=generator)
    return words.to(device), places.to(device)


def _digits(value: Tensor) -> Tensor:
    """[count] -> [count, 4]: the four digits behind the point, as numbers of words."""
    whole = (value * 1e4).round().long().clamp(0, 9999)
    digits = torch.stack([whole // 10**power % 10 for power in (3, 2, 1, 0)], dim=1)
    return digits + WORDS.index("0")


def embed(labels: Tensor, feed: Tensor, kill: Tensor) -> tuple[Tensor, Tensor]:
    """Embeddings of the tokens [count, TOKENS, WIDTH], and of the whole prompt [count, WIDTH]."""
    words, places = _tables(labels.device)
    tokens = torch.full((len(labels), TOKENS), WORDS.index(""), device=labels.device)
    tokens[:, 0] = labels
    tokens[:, 1] = WORDS.index("F")
    tokens[:, 2:6] = _digits(feed)
    tokens[:, 6] = WORDS.index("k")
    tokens[:, 7:11] = _digits(kill)
    return words[tokens] + places, words[labels]


def text(label: int, feed: float, kill: float) -> str:
    return f"{WORDS[label]}, F {feed:.4f}, k {kill:.4f}"
