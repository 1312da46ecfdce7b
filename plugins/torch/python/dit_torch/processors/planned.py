"""Models that there is a plan for and no processors of ours: diffusers' own stay, and our exchange goes
around the attention that they call."""

from __future__ import annotations

from torch import nn

from .. import attention_calls
from ..parallel import Parallel
from ..plan import Plan
from .family import Family, Removable, processors_of


def family(transformer: nn.Module, plan: Plan) -> Family:
    attention_calls.check(transformer, plan)

    def hooks(transformer: nn.Module, parallel: Parallel) -> list[Removable]:
        return attention_calls.apply(transformer, plan, parallel)

    return Family(
        model=type(transformer).__name__,
        processors={type(one).__name__: None for one in processors_of(transformer).values()},
        plan=lambda _: plan,
        hooks=hooks,
        layers=lambda transformer: attention_calls.layers_of(transformer, plan),
    )
