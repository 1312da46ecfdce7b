"""Plans of diffusers' transformers, by class: one file for each kind of model.

A file has PLANS, class name -> plan, or a function of the transformer that gives one; and may have REFUSED,
class name -> why its tokens cannot be split.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from torch import nn

from ..entries import Plan


@functools.cache
def _tables() -> tuple[dict[str, Plan | Callable[[Any], Plan]], dict[str, str]]:
    plans: dict[str, Plan | Callable[[Any], Plan]] = {}
    refused: dict[str, str] = {}
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        plans |= module.PLANS
        refused |= getattr(module, "REFUSED", {})
    return plans, refused


def planned_classes() -> list[str]:
    return sorted(_tables()[0])


def plan_of(transformer: nn.Module) -> Plan | None:
    """Of a transformer's class or of one that it derives from. Fails for one that is refused."""
    plans, refused = _tables()
    for cls in type(transformer).__mro__:
        if cls.__name__ in refused:
            raise ValueError(
                f"transformer: {type(transformer).__name__} is not supported: {refused[cls.__name__]}; "
                "expected a model whose attention is over all tokens, and nothing else mixes them"
            )
        found = plans.get(cls.__name__)
        if found is not None:
            return found(transformer) if callable(found) else found
    return None
