"""enable() and disable(): one call makes a diffusers transformer parallel, another takes it back."""

from __future__ import annotations

import functools
import logging
import operator
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from . import plan as plans
from .caches import check_caches
from .cfg_parallel import GuidanceBranches, Halves
from .entries import Entry, Plan, checked, told
from .exchanges import Exchanges
from .group import Group, give, take
from .inputs import Inputs
from .parallel import SCHEDULES, NotCopied, Parallel
from .passes import Passes
from .patch import no_graph_alone
from .plans import planned_classes
from .policy import Follower, check_policy
from .processors import Family, family_of, processors_of, supported
from .skips import know
from .steps import steps_of
from .times import Times
from .training import InputsHook, OutputHook, sum_gradients_of
from .verify import Verify

logger = logging.getLogger("dit_torch")
MOST_BRANCHES = 2
_STATE = "_dit_torch"  # attribute of an enabled transformer


@dataclass
class Enabled(NotCopied):
    """What disable() needs, and report()."""

    parallel: Parallel
    family: Family
    plan: Plan
    handles: list[Any]
    originals: dict[str, Any]  # diffusers' processors by name
    ours: dict[str, Any]  # in their place
    follower: Follower | None  # of a policy that may be lossy here
    whole: Group  # of all ranks; parallel's is half of them with cfg_parallel
    inputs: Inputs | None  # None: they are not compared
    left: weakref.finalize[..., nn.Module]  # notes a transformer that is gone without disable()
    times: Times | None = field(default=None, init=False)  # of the last trace()

    def release(self) -> None:
        """Collective."""
        self.left.detach()
        _release(self.parallel, self.whole)


_gone: list[tuple[Parallel, Group]] = []  # of transformers that were not disabled
_numbers = 0  # of transformers that were enabled


def plain(transformer: nn.Module) -> nn.Module:
    """Without the wrapper of torch.compile."""
    return getattr(transformer, "_orig_mod", transformer)


def enabled(transformer: nn.Module) -> Enabled:
    found = getattr(plain(transformer), _STATE, None)
    if not isinstance(found, Enabled):
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
    adapt: bool = True,
    reference_bytes: int | None = None,
    compare: bool = True,
    plan: Sequence[Entry] | None = None,
    verify: bool = False,
) -> nn.Module:
    """Splits a diffusers transformer's tokens between the ranks of a group. Collective. Every rank calls the
    transformer (or the pipeline that it is in) with the same inputs and gets the same, whole output.

    :param group: of torch.distributed; None: all ranks
    :param schedule: "flat", "v-first", "pipelined", or "auto"; all give the same bits
    :param policy: how Q, K, V and the output travel: "exact"; a preset ("balanced", "fast", "paper",
        ...), V-Major ("v-major:..."), a policy file's text or "@PATH" of one send less, and are lossy
    :param steps: with such a policy: denoising steps of an image, or the pipeline's scheduler
    :param branches: with such a policy: forward passes of a step, one for each guidance branch; None: as
        many as diffusers' pipelines of the model make, which the first step shows
    :param cfg_parallel: with classifier-free guidance: each half of the ranks computes one of its branches.
        For an even number of ranks; pipelines without guidance get no faster by the second half
    :param timeout_seconds: a rank that does not come for so long is named in an error; enable() itself waits
        three times as long for ranks that noticed a failure later
    :param adapt: a preset is left off, and results are exact, for shapes whose exact transfers take no longer
        than coding does; that is timed when a shape is first seen. False: presets are used wherever there are
        several nodes
    :param reference_bytes: with such a policy: what a rank may use at most to remember what was sent before.
        Shapes that would need more are exact. None: as much as it takes, which report() tells
    :param compare: ranks compare their weights now, and in each pass all bits of all inputs, and adapters;
        where something differs all of them get an error. False: who has made sure otherwise
    :param plan: of a model that there is none for, or another one: see docs/torch.md
    :param verify: the first pass is computed on each rank alone, too, and has to give the same
    :return: the transformer
    """
    model = plain(transformer)
    seconds = timeout_seconds if _is_positive(timeout_seconds) else 300.0  # until that is told to all
    with ExitStack() as undo:
        whole = _taken(undo, group, seconds)
        number, asked = _agree(
            whole,
            lambda: _asked(
                model,
                whole.whole,
                schedule,
                policy,
                steps,
                branches,
                cfg_parallel,
                timeout_seconds,
                adapt,
                reference_bytes,
                compare,
                plan,
                verify,
            ),
        )
        family, branches, originals = asked.family, asked.branches, asked.originals
        if family.note and whole.rank == 0:
            logger.warning(family.note)
        ranks, halves = whole, None
        if cfg_parallel:
            halves = Halves(whole)
            half, parts = halves.half, halves.parts
            ranks = whole.together(lambda: _taken(undo, half, seconds, parts))
            halves.groups.append(ranks)
        schedule = _schedule(schedule, ranks)
        exchanges = Exchanges(
            ranks,
            number,
            policy,
            family.layers(model),
            branches=branches,
            side_stream=schedule != "flat",
            adapt=bool(adapt),
            reference_bytes=reference_bytes,
        )
        exchanges.check(_device(model))
        parallel = Parallel(number, ranks, schedule, exchanges, halves=halves is not None)
        undo.callback(parallel.close)
        ours = {
            name: originals[name] if make is None else make(parallel, layer, originals[name])
            for layer, (name, make) in enumerate(asked.makers.items())
        }
        handles: list[Any] = []
        undo.callback(_remove, handles)
        plan = family.plan(model)
        hooks = _Hooks(model, parallel, family, plan)
        inputs = None
        if compare and whole.size > 1:
            inputs = Inputs(model, number, whole, None if halves is None else ranks)
        passes = Passes(parallel, [whole] if halves is None else halves.groups)
        if inputs is not None:
            passes.remembers(inputs.forget)
        watch = _Watch(passes, ours, hooks, inputs, whole, halves is not None)
        handles.append(model.register_forward_pre_hook(watch, with_kwargs=True))
        verification = None
        if verify and whole.size > 1:
            unsplit = functools.partial(_unsplit, model, hooks, originals, ours)
            verification = Verify(model, whole, unsplit)
            handles.append(verification)
        follower = None if exchanges.never_lossy else Follower(model, parallel, steps, branches, asked.most)
        if follower is not None:
            handles.append(follower.register(model))
            passes.remembers(follower.forget)
        if halves is not None:
            guidance = GuidanceBranches(model, halves, inputs)
            handles.append(guidance)
            passes.remembers(guidance.forget)
        handles.append(model.register_forward_pre_hook(InputsHook(parallel), with_kwargs=True))
        handles += plans.apply(model, tuple(entry for entry in plan if entry.module == ""), parallel)
        handles.append(hooks)
        hooks.set()
        handles.append(model.register_forward_hook(OutputHook(parallel)))
        _set(model, ours)
        if verification is not None:
            verification.compare(model)
        passes.surround(model)
        handles.append(passes)
        left = weakref.finalize(model, _gone.append, (parallel, whole))
        left.atexit = False
        this = Enabled(parallel, family, plan, handles, originals, ours, follower, whole, inputs, left)
        setattr(model, _STATE, this)
        undo.pop_all()
    return transformer


@dataclass
class _Asked:
    """What this rank was asked for."""

    family: Family
    branches: int
    most: int  # that there may turn out to be
    originals: dict[str, Any]  # diffusers' processors by name
    makers: dict[str, Any]  # of ours
    alike: dict[str, object]  # what all ranks have to be asked for


def _asked(
    model: Any,
    whole: bool,
    schedule: Any,
    policy: Any,
    steps: Any,
    branches: Any,
    cfg_parallel: Any,
    timeout: Any,
    adapt: Any,
    reference_bytes: Any,
    compare: Any,
    plan: Any,
    verify: Any,
) -> _Asked:
    """Raises where it is wrong."""
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"transformer is of class {type(model).__name__}: expected the transformer of a pipeline, "
            "such as pipe.transformer"
        )
    if isinstance(getattr(model, _STATE, None), Enabled):
        raise ValueError("transformer: enabled already; expected dit_torch.disable(transformer) before")
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule = {schedule!r}: expected one of {', '.join(SCHEDULES)}")
    if not _is_positive(timeout):
        raise ValueError(f"timeout_seconds = {timeout!r}: expected a number greater than 0")
    if reference_bytes is not None and (type(reference_bytes) is not int or reference_bytes < 0):
        raise ValueError(f"reference_bytes = {reference_bytes!r}: expected a number of bytes, or None")
    if verify and (cfg_parallel or policy != "exact"):
        raise ValueError(
            f"verify = {verify!r}: expected policy 'exact', and no cfg_parallel, which compute other things"
        )
    family = _family(model, None if plan is None else checked(plan))
    family.check(model, policy, cfg_parallel)
    _refuse_others(model, whole, cfg_parallel)
    originals = processors_of(model)
    makers = _makers(model, family, originals)
    most = MOST_BRANCHES if branches is None else branches
    branches = family.branches if branches is None else branches
    check_policy(policy, steps, branches)
    if cfg_parallel and policy != "exact":
        raise ValueError(f"policy = {policy!r}: expected 'exact' with cfg_parallel")
    alike = {
        "transformer": family.model,
        "schedule": schedule,
        "policy": policy,
        "steps": None if policy == "exact" else steps_of(steps),
        "branches": branches,
        "cfg_parallel": bool(cfg_parallel),
        "adapt": bool(adapt),
        "reference_bytes": reference_bytes,
        "compare": bool(compare),
        "plan": None if plan is None else list(map(told, plan)),
        "verify": bool(verify),
        "timeout_seconds": float(timeout),
    }
    return _Asked(family, branches, most, originals, makers, alike | _facts(model))


def _facts(model: nn.Module) -> dict[str, object]:
    """What a transformer's exchanges depend on."""
    facts: dict[str, object] = {
        "transformer.dtype": next(model.parameters(), torch.empty(0)).dtype,
        "transformer.device": _device(model).type,
        "transformer's attention layers": len(processors_of(model)),
    }
    simple = (bool, int, float, str, list, tuple, type(None))
    for name, value in dict(getattr(model, "config", {})).items():
        if not name.startswith("_") and isinstance(value, simple):
            facts[f"transformer.config.{name}"] = value
    return facts


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters(), torch.empty(0)).device


def _is_positive(number: Any) -> bool:
    return isinstance(number, (int, float)) and 0 < number < float("inf")


def _family(model: nn.Module, plan: Plan | None) -> Family:
    family = family_of(model, plan)
    if family is None:
        raise ValueError(
            f"transformer: {type(model).__name__} is not supported; expected {', '.join(supported())}, or "
            f"another of {len(planned_classes())} classes of diffusers that there is a plan for, or a plan "
            "of your own (enable(plan=...), docs/torch.md)"
        )
    return family


def _taken(undo: ExitStack, *what: Any) -> Group:
    """What take() gives, and is given back where the rest fails. Collective."""
    group = take(*what)
    undo.callback(give, group)
    return group


def _refuse_others(model: Any, whole: bool, halves: bool) -> None:
    """What else makes a model compute other things on other ranks."""
    if getattr(model, "_parallel_config", None) is not None:
        raise ValueError(
            "transformer: diffusers' enable_parallelism() was called; expected a model without it"
        )
    check_caches(model, whole, halves)


def _agree(whole: Group, ask: Callable[[], _Asked]) -> tuple[int, _Asked]:
    """Fails on all ranks where one of them is asked for something wrong, or for something else than others.
    Returns the number of this transformer, too. Collective."""
    global _numbers
    asked = whole.together(ask)
    whole.agree(asked.alike)
    # Ranks that are in other groups, too, have counted further.
    gone = {parallel.number: (parallel, group) for parallel, group in _gone if group is whole}
    told = whole.gather((_numbers, set(gone)))
    for number in sorted(set.intersection(*(numbers for _, numbers in told))):
        _gone.remove(gone[number])
        logger.warning("a transformer is gone that was not disabled: its exchanges are freed now")
        _release(*gone[number])
    number = max(count for count, _ in told)
    _numbers = number + 1
    return number, asked


def _release(parallel: Parallel, whole: Group) -> None:
    """Collective; what a torch.distributed that has ended cannot free any more is given up."""
    try:
        parallel.exchanges.close()
    except RuntimeError:
        if whole.lives:
            raise
    finally:
        parallel.close()
        give(parallel.group)
        if whole is not parallel.group:
            give(whole)


def _remove(handles: list[Any]) -> None:
    for handle in reversed(handles):
        handle.remove()


def _schedule(schedule: str, ranks: Group) -> str:
    """What "auto" is: in a node one kernel for Q, K and V costs least; on slow links time is to be hidden.
    How slow they are between nodes is measured with each shape."""
    if schedule != "auto" or (ranks.library is not None and not ranks.one_node):
        return schedule
    return "flat" if ranks.one_node else "v-first"


class _Hooks:
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
        _remove(self.handles)
        self.handles = []

    def follow(self) -> None:
        found = self.model._modules.values()
        if len(found) != len(self.modules) or any(map(operator.is_not, found, self.modules)):
            self.remove()
            self.set()


class _Watch:
    """Forward pre-hook, the first: a pass begins, and what was changed after enable() is noticed."""

    def __init__(
        self,
        passes: Passes,
        processors: dict[str, Any],
        hooks: _Hooks,
        inputs: Inputs | None,
        whole: Group,
        halves: bool,
    ) -> None:
        self.passes, self.processors, self.hooks = passes, processors, hooks
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
        try:
            return self._check(model, args, kwargs)
        except BaseException as error:
            self.passes.fail(error)
            raise

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
        _refuse_others(model, self.whole, self.halves)
        self.hooks.follow()
        return None if self.inputs is None else self.inputs.take(args, kwargs)


def _set(model: Any, processors: dict[str, Any]) -> None:
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
def _unsplit(model: Any, hooks: _Hooks, originals: dict[str, Any], ours: dict[str, Any]) -> Iterator[None]:
    """While it is entered, modules and processors are as they were before enable()."""
    hooks.remove()
    _set(model, originals)
    try:
        yield
    finally:
        _set(model, ours)
        hooks.set()


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
    check_policy(this.parallel.exchanges.policy, steps, this.parallel.exchanges.branches)
    if this.follower is not None:
        this.follower.steps = steps


def new_image(transformer: nn.Module) -> None:
    """With a lossy policy: the next forward pass begins an image, whatever it looks like. On all ranks."""
    this = enabled(transformer)
    if this.follower is not None:
        this.follower.forget()


def sum_gradients(transformer: nn.Module) -> None:
    """After backward(), and before clipping and the optimizer's step: each rank has its tokens' part of the
    gradients of the transformer's parameters, and gets the sum of all ranks', which is what one process has.
    Once for a step, where gradients of several backward passes are added up. Collective."""
    model = plain(transformer)
    parameters = [p for p in model.parameters() if p.requires_grad]
    sum_gradients_of(parameters, enabled(model).whole)


def disable(transformer: nn.Module) -> nn.Module:
    """Gives back the transformer that enable() was given: its processors, none of our hooks. Processors that
    were put there since, as by an IP-Adapter, stay. Collective."""
    model = plain(transformer)
    this = enabled(model)
    _remove(this.handles)
    now = processors_of(model)
    back = {
        name: this.originals[name] if now[name] is one else now[name]
        for name, one in this.ours.items()
        if name in now
    }
    _set(model, back)
    delattr(model, _STATE)
    if this.inputs is not None and this.inputs.seen():
        logger.error("ranks were given different things in a last pass, or in a replay: it gave NaN")
    this.release()
    return transformer
