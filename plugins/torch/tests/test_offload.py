"""Weights that are elsewhere, of another type, or behind something until a layer is called: offloading by
accelerate and diffusers, layerwise casting, quantised layers, norms with something around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dit_torch
import ranks
import tiny

FAMILIES = ("flux", "flux2", "qwenimage", "sd35", "wan")


def _output(model: nn.Module, given: dict[str, Any]) -> Tensor:
    with torch.no_grad():
        return model(**given, return_dict=False)[0]


def _sequential(model: Any) -> Any:
    """As enable_sequential_cpu_offload: each layer's weights are there while it runs, and on "meta" else."""
    accelerate = pytest.importorskip("accelerate")
    return accelerate.cpu_offload(model, execution_device=torch.device("cpu"))


def _whole(model: Any) -> Any:
    """As enable_model_cpu_offload."""
    accelerate = pytest.importorskip("accelerate")
    return accelerate.cpu_offload_with_hook(model, execution_device="cpu")[0]


def _groups(kind: str) -> Callable[[Any], Any]:
    def put(model: Any) -> Any:
        blocks = {"num_blocks_per_group": 1} if kind == "block_level" else {}
        model.enable_group_offload(
            onload_device=torch.device("cpu"), offload_device=torch.device("cpu"), offload_type=kind, **blocks
        )
        return model

    return put


class _Quantised(nn.Linear):
    """Its weight is coded, and only its forward knows how."""

    @classmethod
    def of(cls, linear: nn.Linear) -> _Quantised:
        made = cls(linear.in_features, linear.out_features, linear.bias is not None)
        made.weight = nn.Parameter((linear.weight.data * 256).round().to(torch.int16), requires_grad=False)
        made.bias = linear.bias
        return made

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype) / 256, self.bias)


def _quantise(model: Any) -> Any:
    for name, module in list(model.named_modules()):
        if "blocks." in name and "norm" not in name:
            for child, linear in list(module.named_children()):
                if type(linear) is nn.Linear:
                    setattr(module, child, _Quantised.of(linear))
    return model


def _cast(model: Any) -> Any:
    model.enable_layerwise_casting(storage_dtype=torch.float8_e4m3fn, compute_dtype=torch.float32)
    return model


def _norms(model: Any, change: Callable[[nn.Module], None]) -> Any:
    for name, module in model.named_modules():
        if name.endswith(("norm_q", "norm_k", "norm_added_q", "norm_added_k")):
            change(module)
    return model


def _hooked_norms(model: Any) -> Any:
    return _norms(model, lambda norm: norm.register_forward_hook(lambda module, args, x: 1.5 * x))


def _biased_norms(model: Any) -> Any:
    def change(norm: Any) -> None:
        norm.bias = nn.Parameter(torch.linspace(-1, 1, norm.weight.shape[0]))

    return _norms(model, change)


def _layer_norms(model: Any) -> Any:
    """Of another class, and of another epsilon for Q than for K."""
    for name, module in list(model.named_modules()):
        if name.endswith(("norm_q", "norm_k")):
            size, epsilon = module.weight.shape[0], 0.1 if name.endswith("q") else 1e-5
            model.get_submodule(name.rpartition(".")[0])._modules[name.rpartition(".")[2]] = nn.LayerNorm(
                size, eps=epsilon
            )
    return model


def _no_text_norms(model: Any) -> Any:
    """FLUX calls them without asking whether they are there."""
    nothing = nn.Identity() if type(model).__name__.startswith("Flux") else None
    for module in model.modules():
        for name in ("norm_added_q", "norm_added_k"):
            if getattr(module, name, None) is not None:
                setattr(module, name, nothing)
    return model


CHANGES: dict[str, Callable[[Any], Any]] = {
    "sequential": _sequential,
    "whole": _whole,
    "groups of blocks": _groups("block_level"),
    "groups of leaves": _groups("leaf_level"),
    "quantised": _quantise,
    "cast": _cast,
    "hooked norms": _hooked_norms,
    "biased norms": _biased_norms,
    "layer norms": _layer_norms,
    "no text norms": _no_text_norms,
}

ELSEWHERE = ("whole", "groups of blocks", "groups of leaves", "quantised", "cast")  # not by their norms


def _changed(names: tuple[str, ...], schedule: str) -> dict[str, bool]:
    """Before enable() and after it, and still there after disable()."""
    told = {}
    for family in FAMILIES:
        make, make_inputs = tiny.MODELS[family]
        given = make_inputs(batch=2 if schedule == "pipelined" else 1)
        for name in names:
            if name in ELSEWHERE and family not in ("flux", "flux2"):
                continue
            one = _output(CHANGES[name](make(3)), given)
            for when in ("before", "after"):
                model = make(3)
                if when == "before":
                    CHANGES[name](model)
                dit_torch.enable(model, schedule=schedule)
                if when == "after":
                    CHANGES[name](model)
                every = _output(model, given)
                dit_torch.disable(model)
                told[f"{family}, {name} {when}"] = torch.allclose(every, one, rtol=0, atol=2e-5)
                told[f"{family}, {name} {when}: disabled"] = torch.equal(_output(model, given), one)
    return told


@pytest.mark.parametrize(
    ("names", "schedule"),
    [
        (tuple(CHANGES), "flat"),
        (("sequential", "cast", "layer norms"), "v-first"),
        (("sequential", "no text norms"), "pipelined"),
    ],
)
def test_weights_are_where_their_layers_say(names: tuple[str, ...], schedule: str) -> None:
    for told in ranks.run(2, _changed, names, schedule):
        assert all(told.values()), [what for what, good in told.items() if not good]
