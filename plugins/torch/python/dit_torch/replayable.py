"""Which passes a CUDA graph of one may stand for: alike in what the graph does not read anew."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor, nn

from .adapters import every_module, is_adapter, state_of_adapter
from .digest import described
from .group import Group

SIMPLE = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.Size)


def fact(x: Any) -> Hashable:
    """What passes have alike that a graph may stand for."""
    if isinstance(x, Tensor):
        return described(x), tuple(x.stride()), str(x.device)
    return x if isinstance(x, SIMPLE) else type(x)


def surroundings() -> Hashable:
    """What else a pass depends on."""
    sdp = torch.backends.cuda
    kernels = (
        sdp.flash_sdp_enabled(),
        sdp.mem_efficient_sdp_enabled(),
        sdp.math_sdp_enabled(),
        sdp.cudnn_sdp_enabled(),
    )
    autocast = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda")
    return torch.is_inference_mode_enabled(), autocast, kernels


def why_not(leaves: list[Any]) -> str:
    """Why a pass is not to be captured; "" where it may be."""
    if torch.is_grad_enabled():
        return "gradients may be wanted: expected torch.no_grad() around the pass"
    if torch.cuda.is_current_stream_capturing():
        return "the stream is captured already"
    for x in leaves:
        if isinstance(x, Tensor) and not _on_device(x):
            return f"an argument is a {type(x).__name__} on {x.device}: expected tensors on the GPU"
        if not isinstance(x, (Tensor, *SIMPLE)):
            return f"an argument is a {type(x).__name__}"
    return ""


def _on_device(x: Tensor) -> bool:
    return type(x) is Tensor and x.is_cuda


def state_of(model: nn.Module) -> list[Any]:
    """What a graph would not notice: other modules, tensors elsewhere, adapters, kernels, and caches that may
    have let go of what it reads."""
    state: list[Any] = []
    types: set[type] = set()
    for module in every_module(model):
        own = module.__dict__
        state += (module, module.training, own.get("_compiled_call_impl"), _hooks_of(own), "_hf_hook" in own)
        for tensors in (module._parameters, module._buffers):
            state += [None if x is None else _place_of(x) for x in tensors.values()]
        if not type(module).__module__.startswith("torch.nn"):
            types.add(type(module))
            state += [_places(x) for x in own.values() if isinstance(x, (Tensor, list, tuple))]
        if is_adapter(module):
            state.append(str(state_of_adapter(module)))
        if "processor" in own:
            state += (own["processor"], getattr(own["processor"], "_attention_backend", None))
    state += [_let_go(cache) for cls in sorted(types, key=str) for cache in _caches_of(cls)]
    return state


def _place_of(x: Tensor) -> int:
    return x.data_ptr() if type(x) in (Tensor, nn.Parameter) else id(x)


def _places(x: Any) -> Any:
    """Of a tensor that a module computes once, or of a list of them."""
    return _place_of(x) if isinstance(x, Tensor) else [_place_of(one) for one in x if isinstance(one, Tensor)]


@functools.cache
def _caches_of(cls: type) -> list[Any]:
    """functools' caches of methods: rotary embeddings by sizes are kept in such."""
    return [one for name in dir(cls) if hasattr(one := getattr(cls, name, None), "cache_info")]


def _let_go(cache: Any) -> int:
    """How often a full cache has taken something else."""
    info = cache.cache_info()
    return info.misses if info.currsize == info.maxsize else 0


def _hooks_of(own: dict[str, Any]) -> int:
    """Of diffusers', on a module."""
    return len(own["_diffusers_hook"].hooks) if "_diffusers_hook" in own else 0


def hooked(model: nn.Module) -> str:
    """What replays would not run, in words; "" where there is nothing."""
    for name, module in model.named_modules():
        own: dict[str, Any] = module.__dict__
        if (name and "_hf_hook" in own) or _hooks_of(own):
            return f"{name or 'the transformer'} has a hook of an offload, a cache or layerwise casting"
    return ""


def check_graphs(model: nn.Module, group: Group) -> None:
    """Fails for a transformer whose passes cannot be captured."""
    if group.library is None and group.size > 1:
        raise ValueError("graphs = True without libdit_torch.so: expected it to be built (docs/torch.md)")
    for name, x in model.named_parameters():
        if hasattr(x, "_local_tensor") or not x.is_cuda:
            raise ValueError(
                f"graphs = True, {name} is a {type(x).__name__} on {x.device}: expected parameters that stay "
                "on the GPU"
            )
    if words := hooked(model):
        raise ValueError(f"graphs = True, {words}: expected none, as replays would not run it")
