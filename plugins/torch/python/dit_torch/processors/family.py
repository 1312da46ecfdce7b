"""Model families: which class of diffusers is made parallel how."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from torch import nn

from ..entries import Plan
from ..parallel import Parallel
from ..plans import plan_of


class Removable(Protocol):
    """What a hook or a patch gives: disable() takes it back."""

    def remove(self) -> None: ...


# parallel, layer, diffusers' processor, its module's name -> ours
MakeProcessor = Callable[[Parallel, int, Any, str], Any]


@dataclass(frozen=True)
class Family:
    """A model class of diffusers.

    :ivar model: name of the transformer's class
    :ivar processors: class name of diffusers' processor -> ours; None: stays, as it exchanges nothing
    :ivar plan: which inputs are split, for a transformer
    :ivar hooks: further hooks and patches of its own; disable() calls their remove()
    :ivar branches: forward passes of a step, one for each guidance branch, in diffusers' pipelines
    :ivar note: what enable() logs, on one rank
    :ivar check: raises where it cannot be enabled so; of the transformer, policy and cfg_parallel
    :ivar splits_samples: with cfg_parallel: each half computes half of a call's samples, as it is known which
        arguments have a row for each; else both compute all of them, and only calls of their own branch apart
    :ivar layers: how many modules exchange, where that is not the number of processors
    """

    model: str
    processors: Mapping[str, MakeProcessor | None]
    plan: Callable[[Any], Plan]
    hooks: Callable[[Any, Parallel], list[Removable]] = lambda transformer, parallel: []
    branches: int = 1
    note: str = ""
    check: Callable[[Any, Any, bool], None] = lambda transformer, policy, cfg_parallel: None
    splits_samples: bool = True
    layers: Callable[[Any], int] = lambda transformer: len(processors_of(transformer))


# class name of the transformer -> file of this folder, which has a FAMILY
_FILES = {
    "FluxTransformer2DModel": "flux",
    "Flux2Transformer2DModel": "flux2",
    "Flux3Transformer2DModel": "flux3",
    "HunyuanVideo15Transformer3DModel": "hunyuan_video15",
    "Krea2Transformer2DModel": "krea2",
    "LTX2VideoTransformer3DModel": "ltx2",
    "MiniMaxH3Transformer3DModel": "minimax_h3",
    "QwenImage21Transformer2DModel": "qwenimage21",
    "QwenImageTransformer2DModel": "qwenimage",
    "SD3Transformer2DModel": "sd3",
    "WanTransformer3DModel": "wan",
    "ZImageTransformer2DModel": "z_image",
}


def family_of(transformer: nn.Module, plan: Plan | None = None) -> Family | None:
    """The family of a transformer's class or of one that it derives from; for other models that there is a
    plan for, ours or diffusers', one with diffusers' processors; None: neither.

    :param plan: somebody's own, which comes before all
    """
    planned = importlib.import_module(f"{__package__}.planned")
    if plan is not None:
        return cast(Family, planned.family(transformer, plan))
    for cls in type(transformer).__mro__:
        name = _FILES.get(cls.__name__)
        if name is not None:
            family = importlib.import_module(f"{__package__}.{name}").FAMILY
            assert isinstance(family, Family)
            return family
    known = plan_of(transformer)
    if known is not None:
        return cast(Family, planned.family(transformer, known))
    others = importlib.import_module(f"{__package__}.others")
    return others.family(transformer)


def supported() -> list[str]:
    """Classes with processors of their own."""
    return sorted(_FILES)


def processors_of(transformer: nn.Module) -> dict[str, Any]:
    """diffusers' attention processors by the names of their modules, in the order of execution."""
    return {
        name: module.processor
        for name, module in transformer.named_modules()
        if getattr(module, "processor", None) is not None and hasattr(module, "set_processor")
    }
