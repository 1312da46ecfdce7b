"""A tiny model of a class, and inputs for it: what the table is made of."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import tiny

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Tiny:
    """Two layers of each kind, few heads, odd token counts."""

    cls: str  # its name in diffusers.models.transformers
    config: dict[str, Any]
    inputs: Callable[[int], Inputs]  # of a batch size
    batches: tuple[int, ...]

    def make(self) -> nn.Module:
        return tiny.randomise(dit_classes()[self.cls](**self.config))


TINY: dict[str, Tiny] = {}

# Models in the same place that do not denoise tokens by attention over all of them.
NOT_DIT = {
    "DreamLiteTransformer2DModel": "a layer of a UNet",
    "MiniMaxMusic3RVQDepthDecoder": "writes the codes of audio one after the other",
    "PriorTransformer": "predicts the embedding of one image from that of a text",
    "T5FilmDecoder": "the decoder of a T5, with T5's own attention",
    "TransformerTemporalModel": "a layer of a UNet",
}


def model(
    cls: str, /, *, variant: str = "", batches: tuple[int, ...] = (1, 2), **config: Any
) -> Callable[[Callable[[int], Inputs]], Callable[[int], Inputs]]:
    """Enters the class with that configuration, and the function that makes its inputs."""

    def enter(inputs: Callable[[int], Inputs]) -> Callable[[int], Inputs]:
        name = f"{cls}-{variant}" if variant else cls
        assert name not in TINY
        TINY[name] = Tiny(cls, config, inputs, batches)
        return inputs

    return enter


@functools.cache
def dit_classes() -> dict[str, type[nn.Module]]:
    """All models of diffusers.models.transformers, by name."""
    from diffusers.models import transformers
    from diffusers.models.modeling_utils import ModelMixin

    found: dict[str, type[nn.Module]] = {}
    for module in pkgutil.iter_modules(transformers.__path__):
        where = importlib.import_module(f"{transformers.__name__}.{module.name}")
        for name, value in vars(where).items():
            if (
                isinstance(value, type)
                and issubclass(value, ModelMixin)
                and value.__module__ == where.__name__
            ):
                found[name] = value
    return found


def installed() -> list[str]:
    """Entries whose class this diffusers has, with those arguments."""
    names = []
    for name, entry in TINY.items():
        cls = dit_classes().get(entry.cls)
        if cls is None or not entry.config.keys() <= inspect.signature(cls).parameters.keys():
            continue
        if entry.inputs(1).keys() <= inspect.signature(cls.forward).parameters.keys():
            names.append(name)
    return names


def noise(*shape: int, seed: int = 0) -> Tensor:
    return tiny.noise(*shape, seed=seed)


def steps(batch: int, value: float = 600.0) -> Tensor:
    """A timestep for each sample, all different."""
    return value - 100.0 * torch.arange(batch)


def mask(batch: int, tokens: int, dtype: torch.dtype = torch.bool) -> Tensor:
    """Of texts that end two tokens before the last, those of other samples one earlier each."""
    lengths = tokens - 2 - torch.arange(batch)
    return (torch.arange(tokens)[None] < lengths[:, None]).to(dtype)


def grid(*counts: int, axes: int) -> Tensor:
    """Positions of a grid of tokens, [tokens, axes]; the grid's are the last of the axes."""
    positions = torch.meshgrid(*(torch.arange(float(count)) for count in counts), indexing="ij")
    ids = torch.zeros(positions[0].numel(), axes)
    ids[:, axes - len(counts) :] = torch.stack([p.flatten() for p in positions], dim=1)
    return ids


def rotary(tokens: int, dim: int, seed: int = 9) -> tuple[Tensor, Tensor]:
    """Tables of cosines and sines, each value twice, as pipelines make them."""
    angles = noise(tokens, dim // 2, seed=seed).repeat_interleave(2, dim=1)
    return angles.cos(), angles.sin()
