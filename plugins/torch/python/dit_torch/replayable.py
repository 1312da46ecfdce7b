"""Which passes a CUDA graph of one may stand for: alike in what the graph does not read anew."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor, nn

from .adapters import every_module, is_adapter, state_of_adapter
from .attention import attention_dispatch
from .digest import described, plain_parts
from .group import Group

SIMPLE = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.Size)


def fact(x: Any) -> Hashable:
    """What passes have alike that a graph may stand for."""
    if isinstance(x, Tensor):
        return described(x), x.device.type  # strides are those of the graph's own copies
    return x if isinstance(x, SIMPLE) else type(x)


def surroundings() -> Hashable:
    """What else a pass depends on."""
    sdp, registry = torch.backends.cuda, getattr(attention_dispatch, "_AttentionBackendRegistry", None)
    kernels = (
        sdp.flash_sdp_enabled(),
        sdp.mem_efficient_sdp_enabled(),
        sdp.math_sdp_enabled(),
        sdp.cudnn_sdp_enabled(),
        None if registry is None else str(registry.get_active_backend()[0]),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
    )
    autocast = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda")
    return torch.is_inference_mode_enabled(), autocast, kernels


def why_not(leaves: list[Any]) -> str:
    """Why a pass is not to be captured; "" where it may be."""
    if torch.is_grad_enabled():
        return "gradients may be wanted: expected torch.no_grad() around the pass"
    if torch.cuda.is_current_stream_capturing():
        return "the stream is captured already"
    if torch.is_autocast_enabled("cuda") and torch.is_autocast_cache_enabled():
        return "torch.autocast keeps weights in another type until it ends: expected it off, or its cache"
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
        state += (weakref.ref(module), module.training, _hooks_of(own), "_hf_hook" in own)
        state += [id(own.get(name)) for name in ("forward", "_compiled_call_impl")]
        for tensors in (module._parameters, module._buffers):
            state += [None if x is None else _place_of(x) for x in tensors.values()]
        if not type(module).__module__.startswith("torch.nn"):
            types.add(type(module))
            state += [
                _places(x) for name, x in own.items() if name not in _OF_TORCH and isinstance(x, _HOLDERS)
            ]
        if is_adapter(module):
            scales, merged, *rest = state_of_adapter(module)
            state += (dict(scales), list(merged), *rest)
        if "processor" in own:
            state += (own["processor"], getattr(own["processor"], "_attention_backend", None))
    state += [_let_go(cache) for cls in sorted(types, key=str) for cache in _caches_of(cls)]
    return state


_HOLDERS = (Tensor, list, tuple, dict)
_OF_TORCH = frozenset(vars(nn.Module()))  # attributes of every module


def _place_of(x: Tensor) -> Any:
    if type(x) in (Tensor, nn.Parameter):
        return x.data_ptr()
    return [part.data_ptr() for part in plain_parts(x)] or id(x)


def _places(x: Any) -> Any:
    """Of a tensor that a module computes once, or of several of them."""
    if isinstance(x, Tensor):
        return _place_of(x)
    return [_place_of(one) for one in (x.values() if isinstance(x, dict) else x) if isinstance(one, Tensor)]


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
        if "_hf_hook" in own or _hooks_of(own):
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
