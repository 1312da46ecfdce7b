"""What a rank was asked for by enable(): ranks compare it before anything is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from . import sage
from .caches import check_caches
from .entries import Plan, checked, text_of
from .exchanges import SAGE
from .group import Group
from .guidance import why_not
from .parallel import SCHEDULES
from .plans import planned_classes
from .policy import STATELESS, check_policy
from .processors import Family, family_of, processors_of, supported
from .replayable import check_graphs
from .steps import steps_of

MOST_BRANCHES = 2
PARALLEL = ("ulysses", "auto")


@dataclass
class Asked:
    """What this rank was asked for."""

    family: Family
    branches: int
    most: int  # that there may turn out to be
    originals: dict[str, Any]  # diffusers' processors by name
    makers: dict[str, Any]  # of ours
    alike: dict[str, object]  # what all ranks have to be asked for
    no_halves: str  # why ranks are not halved; "": they are


def ask(
    model: Any,
    enabled_already: bool,
    group: Group,
    schedule: Any,
    policy: Any,
    steps: Any,
    branches: Any,
    cfg_parallel: Any,
    parallel: Any,
    timeout: Any,
    adapt: Any,
    reference_bytes: Any,
    compare: Any,
    plan: Any,
    verify: Any,
    graphs: Any,
) -> Asked:
    """Raises where it is wrong."""
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"transformer is of class {type(model).__name__}: expected the transformer of a pipeline, "
            "such as pipe.transformer"
        )
    if enabled_already:
        raise ValueError("transformer: enabled already; expected dit_torch.disable(transformer) before")
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule = {schedule!r}: expected one of {', '.join(SCHEDULES)}")
    if parallel not in PARALLEL or (cfg_parallel and parallel != "ulysses"):
        raise ValueError(
            f"parallel = {parallel!r}, cfg_parallel = {cfg_parallel!r}: expected one of "
            f"{', '.join(PARALLEL)}, the first of them with cfg_parallel"
        )
    flags = {
        "cfg_parallel": cfg_parallel,
        "adapt": adapt,
        "compare": compare,
        "verify": verify,
        "graphs": graphs,
    }
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise ValueError(f"{name} = {flag!r}: expected True or False")
    if not is_positive(timeout):
        raise ValueError(f"timeout_seconds = {timeout!r}: expected a number greater than 0")
    if reference_bytes is not None and (type(reference_bytes) is not int or reference_bytes < 0):
        raise ValueError(f"reference_bytes = {reference_bytes!r}: expected a number of bytes, or None")
    if verify and (cfg_parallel or policy != "exact"):
        raise ValueError(
            f"verify = {verify!r}: expected policy 'exact', and no cfg_parallel, which compute other things"
        )
    family = _family(model, None if plan is None else checked(plan))
    family.check(model, policy, cfg_parallel)
    if policy == SAGE:
        sage.check(device_of(model), family.model, any(map(callable, family.processors.values())))
    refuse_others(model, group.whole, cfg_parallel)
    if graphs:
        check_graphs(model, group)
    originals = processors_of(model)
    makers = _makers(model, family, originals)
    most = MOST_BRANCHES if branches is None else branches
    branches = family.branches if branches is None else branches
    check_policy(policy, steps, branches)
    alike = {
        "transformer": family.model,
        "schedule": schedule,
        "policy": policy,
        "steps": None if policy in STATELESS else steps_of(steps),
        "branches": branches,
        "cfg_parallel": cfg_parallel,
        "parallel": parallel,
        "adapt": adapt,
        "reference_bytes": reference_bytes,
        "compare": compare,
        "plan": None if plan is None else list(map(text_of, plan)),
        "verify": verify,
        "graphs": graphs,
        "timeout_seconds": float(timeout),
    }
    no_halves = "" if cfg_parallel else 'parallel = "ulysses"'
    if parallel == "auto":
        no_halves = why_not(group.size, verify, _against_halves(model, family, policy))
    return Asked(family, branches, most, originals, makers, alike | _facts(model), no_halves)


def _against_halves(model: nn.Module, family: Family, policy: Any) -> str:
    """Why a model's branches of guidance cannot be distinguished; "" where they can."""
    try:
        family.check(model, policy, True)
    except ValueError as error:
        return str(error).removeprefix("cfg_parallel = True: expected False for ")
    return ""


def _facts(model: nn.Module) -> dict[str, object]:
    """What a transformer's exchanges depend on."""
    facts: dict[str, object] = {
        "transformer.dtype": next(model.parameters(), torch.empty(0)).dtype,
        "transformer.device": device_of(model).type,
        "transformer's attention layers": len(processors_of(model)),
    }
    simple = (bool, int, float, str, list, tuple, type(None))
    for name, value in dict(getattr(model, "config", {})).items():
        if not name.startswith("_") and isinstance(value, simple):
            facts[f"transformer.config.{name}"] = value
    return facts


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters(), torch.empty(0)).device


def is_positive(number: Any) -> bool:
    return type(number) in (int, float) and 0 < number < float("inf")


def _family(model: nn.Module, plan: Plan | None) -> Family:
    family = family_of(model, plan)
    if family is None:
        raise ValueError(
            f"transformer: {type(model).__name__} is not supported; expected {', '.join(supported())}, or "
            f"another of {len(planned_classes())} classes of diffusers that there is a plan for, or a plan "
            "of your own (enable(plan=...), docs/torch.md)"
        )
    return family


def refuse_others(model: Any, whole: bool, halves: bool) -> None:
    """What else makes a model compute other things on other ranks."""
    if getattr(model, "_parallel_config", None) is not None:
        raise ValueError(
            "transformer: diffusers' enable_parallelism() was called; expected a model without it"
        )
    check_caches(model, whole, halves)


def _makers(model: nn.Module, family: Family, originals: dict[str, Any]) -> dict[str, Any]:
    for name, processor in originals.items():
        if type(processor).__name__ not in family.processors:
            raise ValueError(
                f"transformer: {type(model).__name__} has the attention processor "
                f"{type(processor).__name__} at {name}; expected {' or '.join(family.processors)} "
                "(IP-Adapters and own processors are not supported)"
            )
    return {name: family.processors[type(p).__name__] for name, p in originals.items()}
