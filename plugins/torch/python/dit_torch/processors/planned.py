"""Models that there is a plan for and no processors of ours: diffusers' own stay, and our exchange goes
around the attention that they call."""

from __future__ import annotations

from typing import Any

from torch import nn

from .. import attention_calls
from ..entries import Plan
from ..own_attention import OwnAttention
from ..parallel import Parallel
from ..patch import signature_of
from .family import Family, Removable, processors_of


def family(transformer: nn.Module, plan: Plan) -> Family:
    attention_calls.check(transformer, plan)

    own = attention_calls.own_ways(transformer, plan)

    def make(parallel: Parallel, layer: int, original: Any, where: str) -> Any:
        return OwnAttention(own[where], parallel, layer, original, where) if where in own else original

    def hooks(transformer: nn.Module, parallel: Parallel) -> list[Removable]:
        return attention_calls.apply(transformer, plan, parallel)

    return Family(
        model=type(transformer).__name__,
        processors={type(one).__name__: make for one in processors_of(transformer).values()},
        plan=lambda _: plan,
        hooks=hooks,
        note=f"{type(transformer).__name__}: no processors of ours; its own, with dit_torch's exchange, flat",
        check=check,
        splits_samples=False,
        layers=lambda transformer: attention_calls.layers_of(transformer, plan),
    )


def check(transformer: nn.Module, policy: Any, cfg_parallel: bool) -> None:
    """What is not known well enough of a model."""
    name = type(transformer).__name__
    arguments = signature_of(transformer).parameters.keys()
    named = {"hidden_states", "return_dict"} <= arguments and hasattr(transformer, "cache_context")
    if cfg_parallel and not named:
        raise ValueError(
            f"cfg_parallel = True: expected False for {name}, whose branches of guidance cannot be "
            "distinguished: it has no cache_context, or its forward no arguments hidden_states and "
            "return_dict"
        )
    missing = {"hidden_states", "timestep"} - arguments
    if missing and policy != "exact":
        raise ValueError(
            f"policy = {policy!r}: expected 'exact' for {name}, whose steps cannot be distinguished: its "
            f"forward has no argument {' or '.join(sorted(missing))}"
        )
