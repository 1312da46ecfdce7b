"""Caches that leave out parts of a forward pass: which of them all ranks decide alike.

A rank sees its own tokens only. What goes by the number of the step, or by numbers that were given, leaves
out the same on all ranks. What goes by the tokens does not, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

# Names under which diffusers keeps them on a transformer and its blocks -> what they are called.
_BY_TOKENS = {
    "fbc_leader_block_hook": "FirstBlockCacheConfig",
    "sea_cache_root": "SeaCacheConfig",
}
_BY_CALLS = {
    "pyramid_attention_broadcast": "PyramidAttentionBroadcastConfig",
    "faster_cache_block": "FasterCacheConfig",
}
_MAG = "mag_cache_leader_block_hook"


def check_caches(model: Any, whole: bool, halves: bool) -> None:
    """Raises ValueError where ranks would compute different parts, or each half of them with cfg_parallel.

    :param whole: the group has all ranks of torch.distributed
    """
    cache = type(getattr(model, "_cache_config", None)).__name__
    if cache in _BY_TOKENS.values():
        _refuse(cache)
    for hooks in _hooks_of(model, within_blocks=halves):
        for name, hook in hooks.items():
            if name in _BY_TOKENS:
                _refuse(_BY_TOKENS[name])
            if name == _MAG and hook.config.calibrate:
                raise ValueError(
                    "transformer: its cache has a MagCacheConfig with calibrate = True, by which each rank "
                    "would measure its own tokens; expected False, with the ratios measured before enable()"
                )
            if halves and name in _BY_CALLS:
                raise ValueError(
                    f"transformer: its cache has a {_BY_CALLS[name]}, which counts the calls of both "
                    "guidance branches together; expected another cache, or cfg_parallel = False"
                )
    if getattr(model, "_is_cached", False) and hasattr(model, "_context_manager") and (halves or not whole):
        raise ValueError(
            "transformer: cache_dit.enable_cache() was called, whose decisions are made by all ranks of "
            "torch.distributed together; expected group = None and cfg_parallel = False with it"
        )


def keeps_tokens(model: Any, given: dict[str, Any]) -> bool:
    """Whether something is kept from pass to pass that a rank has computed of its tokens: passes have to be
    computed by the same ranks then.

    :param given: to the pass, by name
    """
    if any("cache" in name and value is not None for name, value in given.items()):
        return True
    names = {name for hooks in _hooks_of(model, within_blocks=True) for name in hooks}
    if any("cache" in name or name in _BY_CALLS for name in names):
        return True
    return getattr(model, "_cache_config", None) is not None or bool(getattr(model, "_is_cached", False))


def _refuse(cache: str) -> None:
    raise ValueError(
        f"transformer: its cache has a {cache}, by which each rank leaves out other blocks; expected "
        "no cache, or one that goes by the step (disable_cache() takes it back)"
    )


def _hooks_of(model: nn.Module, within_blocks: bool) -> Iterator[dict[str, Any]]:
    """diffusers' hooks of the transformer and of its blocks, and of what these consist of."""
    modules = [model]
    for one in model.children():
        if isinstance(one, nn.ModuleList):
            modules += one
    if within_blocks:
        modules += [child for block in modules[1:] for child in block.children()]
    for module in modules:
        registry = module.__dict__.get("_diffusers_hook")
        if registry is not None:
            yield registry.hooks
