"""enable() and disable(): one call makes a diffusers transformer parallel, another takes it back."""

from __future__ import annotations

import itertools
import logging
import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from . import plan as plans
from .cfg_parallel import GuidanceBranches, Halves
from .exchanges import Exchanges
from .group import Group, give, take
from .parallel import SCHEDULES, Parallel
from .policy import Follower, check_policy
from .processors import Family, family_of, processors_of, supported
from .times import Times

logger = logging.getLogger("dit_torch")


@dataclass
class Enabled:
    """What disable() needs, and report()."""

    parallel: Parallel
    family: Family
    plan: plans.Plan
    handles: list[Any]
    originals: dict[str, Any]  # diffusers' processors by name
    follower: Follower | None  # of a lossy policy
    whole: Group  # of all ranks; parallel's is half of them with cfg_parallel
    times: Times | None = field(default=None, init=False)  # of the last trace()


_numbers = itertools.count()
_enabled: weakref.WeakKeyDictionary[nn.Module, Enabled] = weakref.WeakKeyDictionary()


def plain(transformer: nn.Module) -> nn.Module:
    """Without the wrapper of torch.compile."""
    return getattr(transformer, "_orig_mod", transformer)


def enabled(transformer: nn.Module) -> Enabled:
    found = _enabled.get(plain(transformer))
    if found is None:
        raise ValueError(
            f"transformer: {type(plain(transformer)).__name__} is not enabled; expected one that was given "
            "to dit_torch.enable()"
        )
    return found


def enable(
    transformer: nn.Module,
    group: dist.ProcessGroup | None = None,
    schedule: str = "auto",
    policy: str = "exact",
    *,
    steps: Any = None,
    branches: int | None = None,
    cfg_parallel: bool = False,
    timeout_seconds: float = 300.0,
) -> nn.Module:
    """Splits a diffusers transformer's tokens between the ranks of a group. Collective. Every rank calls the
    transformer (or the pipeline that it is in) with the same inputs and gets the same, whole output.

    :param group: of torch.distributed; None: all ranks
    :param schedule: "flat", "v-first", "pipelined", or "auto"; all give the same bits
    :param policy: how Q, K, V and the output travel: "exact"; a preset ("balanced", "fast", ...), V-Major
        ("paper", "v-major:..."), a policy file's text or "@PATH" of one send less, and are lossy
    :param steps: with such a policy: denoising steps of an image, or the pipeline's scheduler
    :param branches: with such a policy: forward passes of a step, one for each guidance branch; None: as
        many as diffusers' pipelines of the model make
    :param cfg_parallel: with classifier-free guidance: each half of the ranks computes one of its branches.
        For an even number of ranks; pipelines without guidance get no faster by the second half
    :param timeout_seconds: a rank that does not come for so long is named in an error
    :return: the transformer
    """
    model = plain(transformer)
    if model in _enabled:
        raise ValueError("transformer: enabled already; expected dit_torch.disable(transformer) before")
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule = {schedule!r}: expected one of {', '.join(SCHEDULES)}")
    family = family_of(model)
    if family is None:
        raise ValueError(
            f"transformer: {type(model).__name__} is not supported; expected {', '.join(supported())}, "
            "or a model that diffusers (0.36 or newer) has a _cp_plan for"
        )
    family.check(model)
    branches = family.branches if branches is None else branches
    check_policy(policy, steps, branches)
    if cfg_parallel and policy != "exact":
        raise ValueError(f"policy = {policy!r}: expected 'exact' with cfg_parallel")
    originals = processors_of(model)
    makers = _makers(model, family, originals)
    whole = take(group, timeout_seconds)
    ranks = whole
    halves = None
    number = next(_numbers)
    try:
        whole.agree("enable()", (family.model, schedule, policy, branches, cfg_parallel))
        if cfg_parallel:
            halves = Halves(whole)
            ranks = take(halves.half, timeout_seconds)
        schedule = _schedule(schedule, ranks)
        exchanges = Exchanges(
            ranks, number, policy, len(originals), branches=branches, side_stream=schedule != "flat"
        )
        exchanges.check()
    except Exception:
        if ranks is not whole:
            give(ranks)
        give(whole)
        raise
    parallel = Parallel(number, ranks, schedule, exchanges, len(originals))
    plan = family.plan(model)
    follower = None if exchanges.exact else Follower(model, parallel, steps, branches)
    handles: list[Any] = [] if follower is None else [follower.register(model)]
    handles += [] if halves is None else [GuidanceBranches(model, halves)]
    handles += [*plans.apply(model, plan, parallel), *family.hooks(model, parallel)]
    ours = {
        name: originals[name] if make is None else make(parallel, layer, originals[name])
        for layer, (name, make) in enumerate(makers.items())
    }
    _set(model, ours)
    handles.append(model.register_forward_pre_hook(_Watch(ours)))
    _enabled[model] = Enabled(parallel, family, plan, handles, originals, follower, whole)
    return transformer


def _schedule(schedule: str, ranks: Group) -> str:
    """What "auto" is: in a node one kernel for Q, K and V costs least; on slow links time is to be hidden."""
    if schedule != "auto":
        return schedule
    return "flat" if ranks.one_node else "v-first"


class _Watch:
    """Forward pre-hook: notices processors that were set after enable(): they know nothing of other ranks."""

    def __init__(self, processors: dict[str, Any]) -> None:
        self.processors = processors

    def __call__(self, model: Any, args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        for name, processor in self.processors.items():
            found = model.get_submodule(name).processor
            if found is not processor:
                raise RuntimeError(
                    f"the attention processor of {name} was replaced by {type(found).__name__} after "
                    "dit_torch.enable(): call disable() before, and enable() again"
                )


def _set(model: Any, processors: dict[str, Any]) -> None:
    """By diffusers' own function, where there is something to set."""
    before = processors_of(model)
    if any(before[name] is not processor for name, processor in processors.items()):
        model.set_attn_processor({f"{name}.processor": one for name, one in processors.items()})


def _makers(model: nn.Module, family: Family, originals: dict[str, Any]) -> dict[str, Any]:
    for name, processor in originals.items():
        if type(processor).__name__ not in family.processors:
            raise ValueError(
                f"transformer: {type(model).__name__} has the attention processor "
                f"{type(processor).__name__} at {name}; expected {' or '.join(family.processors)} "
                "(IP-Adapters and own processors are not supported)"
            )
    return {name: family.processors[type(p).__name__] for name, p in originals.items()}


def set_steps(transformer: nn.Module, steps: Any) -> None:
    """With a lossy policy: the number of steps of the images that follow, or a scheduler. On all ranks."""
    this = enabled(transformer)
    if this.follower is not None:
        check_policy(this.parallel.exchanges.policy, steps, this.follower.follow.branches)
        this.follower.steps = steps


def new_image(transformer: nn.Module) -> None:
    """With a lossy policy: the next forward pass begins an image, whatever it looks like. On all ranks."""
    this = enabled(transformer)
    if this.follower is not None:
        this.follower.follow.forget()


def disable(transformer: nn.Module) -> nn.Module:
    """Gives back the transformer that enable() was given: its processors, none of our hooks. Collective."""
    model = plain(transformer)
    this = enabled(model)
    for handle in this.handles:
        handle.remove()
    _set(model, this.originals)
    del _enabled[model]
    this.parallel.exchanges.close()
    this.parallel.close()
    give(this.parallel.group)
    if this.whole is not this.parallel.group:
        give(this.whole)
    return transformer
