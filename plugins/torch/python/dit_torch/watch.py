"""What is on an enabled transformer's modules, and whether it is still there when a pass begins."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from . import plan as plans
from .asked import refuse_others
from .entries import Plan
from .group import Group
from .inputs import Inputs
from .parallel import Parallel
from .passes import Passes
from .patch import no_graph_alone
from .processors import Family, processors_of
from .skips import know
from .varying import VaryingSizes


def remove_all(handles: list[Any]) -> None:
    for handle in reversed(handles):
        handle.remove()


class Hooks:
    """Those of the plan and of the family on the transformer's modules. Who puts others in their place, as
    adapters do with the last layer, takes ours away with them: they are set anew then."""

    def __init__(self, model: nn.Module, parallel: Parallel, family: Family, plan: Plan) -> None:
        self.model, self.parallel, self.family = model, parallel, family
        self.plan = tuple(entry for entry in plan if entry.module)  # the transformer itself stays
        self.handles: list[Any] = []
        self.modules: list[nn.Module | None] = []  # that they are on, or above them

    def set(self) -> None:
        self.modules = list(self.model._modules.values())
        # The family's come first: dynamo wants a module's hooks in the order in which they were set.
        self.handles += self.family.hooks(self.model, self.parallel)
        self.handles += plans.apply(self.model, self.plan, self.parallel)

    def remove(self) -> None:
        remove_all(self.handles)
        self.handles = []

    def follow(self) -> None:
        found = self.model._modules.values()
        if len(found) != len(self.modules) or any(map(operator.is_not, found, self.modules)):
            self.remove()
            self.set()


class Watch:
    """Forward pre-hook, the first: a pass begins, and what was changed after enable() is noticed."""

    def __init__(
        self,
        passes: Passes,
        processors: dict[str, Any],
        hooks: Hooks,
        varying: VaryingSizes,
        inputs: Inputs | None,
        whole: Group,
        halves: bool,
    ) -> None:
        self.passes, self.processors, self.hooks, self.varying = passes, processors, hooks, varying
        self.known = list(hooks.family.processors)  # that may be there
        self.inputs, self.whole, self.halves = inputs, whole.whole, halves

    @no_graph_alone
    def __call__(
        self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if not torch.compiler.is_compiling():
            return self._begin(model, args, kwargs)
        return None if self.inputs is None else self.inputs.take(args, kwargs)

    @torch.compiler.disable
    def _begin(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.passes.begin()
        return self._check(model, args, kwargs)

    def _what_to_do(self, found: str) -> str:
        if found in self.known:
            return "expected dit_torch.disable(transformer) before that, and enable() behind it"
        return (
            f"expected {' or '.join(self.known)}, as IP-Adapters and own processors are not supported: take "
            "it away (an IP-Adapter by the pipeline's unload_ip_adapter()), or go on without dit_torch by "
            "dit_torch.disable(transformer), which leaves it there"
        )

    def _check(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for name, processor in self.processors.items():
            found = model.get_submodule(name).processor
            if found is not processor:
                raise RuntimeError(
                    f"the attention processor of {name} was replaced by {type(found).__name__} after "
                    f"dit_torch.enable(); {self._what_to_do(type(found).__name__)}"
                )
        refuse_others(model, self.whole, self.halves)
        self.hooks.follow()
        self.varying.follow()
        return None if self.inputs is None else self.inputs.take(args, kwargs)


def set_processors(model: Any, processors: dict[str, Any]) -> None:
    """By diffusers' own function, where there is something to set; a few models have none."""
    before = processors_of(model)
    know(before, processors)
    if all(before[name] is processor for name, processor in processors.items()):
        return
    if hasattr(model, "set_attn_processor"):
        model.set_attn_processor({f"{name}.processor": one for name, one in processors.items()})
        return
    for name, processor in processors.items():
        model.get_submodule(name).set_processor(processor)


@contextmanager
def unsplit(model: Any, hooks: Hooks, originals: dict[str, Any], ours: dict[str, Any]) -> Iterator[None]:
    """While it is entered, modules and processors are as they were before enable()."""
    hooks.remove()
    set_processors(model, originals)
    try:
        yield
    finally:
        set_processors(model, ours)
        hooks.set()
