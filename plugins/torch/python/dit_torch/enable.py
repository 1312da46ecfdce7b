"""enable() and disable(): one call makes a diffusers transformer parallel, another takes it back."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch.distributed as dist
from torch import nn

from . import plan as plans
from .asked import Asked, ask, device_of, is_positive
from .cfg_parallel import GuidanceBranches
from .entries import Entry, Plan
from .exchanges import Exchanges
from .graphs import Graphs
from .group import Group, give, take
from .halves import Halves
from .inputs import Inputs
from .parallel import NotCopied, Parallel, Way
from .passes import Passes
from .policy import Follower, check_policy
from .processors import Family, processors_of
from .times import Times
from .training import InputsHook, OutputHook, sum_gradients_of
from .varying import VaryingSizes
from .verify import Verify
from .watch import Hooks, Watch, remove_all, set_processors, unsplit

logger = logging.getLogger("dit_torch")
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
    whole: Group  # of all ranks; parallel's may be half of them
    guidance: GuidanceBranches | str  # of ranks that may be halved; else why they are not
    inputs: Inputs | None  # None: they are not compared
    passes: Passes
    graphs: Graphs | None  # None: passes are not captured
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
    parallel: str = "ulysses",
    timeout_seconds: float = 300.0,
    adapt: bool = True,
    reference_bytes: int | None = None,
    compare: bool = True,
    plan: Sequence[Entry] | None = None,
    verify: bool = False,
    graphs: bool = False,
) -> nn.Module:
    """Splits a diffusers transformer's tokens between the ranks of a group. Collective. Every rank calls the
    transformer (or the pipeline that it is in) with the same inputs and gets the same, whole output.

    :param group: of torch.distributed; None: all ranks
    :param schedule: "flat", "v-first", "pipelined", or "auto"; all give the same bits
    :param policy: how Q, K, V and the output travel: "exact"; a preset ("balanced", "fast", "paper",
        ...), V-Major ("v-major:..."), a policy file's text or "@PATH" of one send less, and are lossy;
        "sage-int8" is, too: attention by SageAttention's kernel, whose 8 bits of Q and K travel
    :param steps: with such a policy: denoising steps of an image, or the pipeline's scheduler
    :param branches: with such a policy: forward passes of a step, one for each guidance branch; None: as
        many as diffusers' pipelines of the model make, which the first step shows
    :param cfg_parallel: with classifier-free guidance: each half of the ranks computes one of its branches.
        For an even number of ranks; pipelines without guidance get no faster by the second half
    :param parallel: "ulysses"; "auto": halves of the ranks compute the branches of guidance, or the samples
        of a call, where the calls turn out to have them, and all ranks compute all other calls together
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
    :param graphs: passes on GPUs go as CUDA graphs, from the third of their sizes on: one launch where the
        host would take longer than the GPU. Hooks of your own within the transformer do not run in replays
    :return: the transformer
    """
    model = plain(transformer)
    seconds = timeout_seconds if is_positive(timeout_seconds) else 300.0  # until all know that
    with ExitStack() as undo:
        whole = _taken(undo, group, seconds)
        number, asked = _agree(
            whole,
            lambda: ask(
                model,
                isinstance(getattr(model, _STATE, None), Enabled),
                whole,
                schedule,
                policy,
                steps,
                branches,
                cfg_parallel,
                parallel,
                timeout_seconds,
                adapt,
                reference_bytes,
                compare,
                plan,
                verify,
                graphs,
            ),
        )
        family, branches, originals = asked.family, asked.branches, asked.originals
        if family.note and whole.rank == 0:
            logger.warning(family.note)
        halves = _halves(undo, whole, seconds) if asked.no_halves == "" else None
        groups = [whole] if halves is None else halves.groups
        make_exchanges = functools.partial(
            Exchanges,
            owner=number,
            policy=policy,
            layers=family.layers(model),
            branches=branches,
            adapt=adapt,
            reference_bytes=reference_bytes,
        )
        used = groups[1:] if cfg_parallel else groups
        ways = [_way(ranks, schedule, make_exchanges(ranks), ranks is not whole) for ranks in used]
        for way in ways:
            way.exchanges.check(device_of(model))
        split = Parallel(number, ways)
        undo.callback(split.close)
        ours = {
            name: originals[name] if make is None else make(split, layer, originals[name], name)
            for layer, (name, make) in enumerate(asked.makers.items())
        }
        handles: list[Any] = []
        undo.callback(remove_all, handles)
        plan = family.plan(model)
        hooks = Hooks(model, split, family, plan)
        inputs = None
        if compare and whole.size > 1:
            inputs = Inputs(model, number, whole, None if halves is None else groups[1])
        passes = Passes(split, groups)
        if inputs is not None:
            passes.remembers(inputs.forget)
        captured = None
        if graphs:
            captured = Graphs(model, split)
            handles.append(captured)
            captured.watch()
            passes.remembers(captured.begin_anew)
            if inputs is not None:
                inputs.also, captured.settle = captured.facts, inputs.settle
        varying = VaryingSizes(model, plan, split)
        handles.append(varying)
        watch = Watch(passes, ours, hooks, varying, inputs, whole, cfg_parallel)
        handles.append(model.register_forward_pre_hook(watch, with_kwargs=True))
        verification = None
        if verify and whole.size > 1:
            alone = functools.partial(unsplit, model, hooks, originals, ours)
            verification = Verify(model, whole, alone)
            handles.append(verification)
        if captured is not None:
            captured.surround()
        guidance = None
        if halves is not None:
            guidance = GuidanceBranches(model, split, halves, inputs, family.splits_samples)
            handles.append(guidance)
            passes.remembers(guidance.forget)
        follower = None
        if not all(way.exchanges.exact or way.exchanges.never_lossy for way in split.ways):
            follower = Follower(model, split, steps, branches, asked.most)
            handles.append(follower.register(model))
            passes.remembers(follower.forget)
        handles.append(model.register_forward_pre_hook(InputsHook(split), with_kwargs=True))
        handles += plans.apply(model, tuple(entry for entry in plan if entry.module == ""), split)
        handles.append(hooks)
        hooks.set()
        handles.append(model.register_forward_hook(OutputHook(split, passes)))
        set_processors(model, ours)
        if verification is not None:
            verification.compare(model)
        passes.surround(model)
        handles.append(passes)
        left = weakref.finalize(model, _gone.append, (split, whole))
        left.atexit = False
        choice = guidance or asked.no_halves
        this = Enabled(
            split,
            family,
            plan,
            handles,
            originals,
            ours,
            follower,
            whole,
            choice,
            inputs,
            passes,
            captured,
            left,
        )
        setattr(model, _STATE, this)
        undo.pop_all()
    return transformer


def _taken(undo: ExitStack, *what: Any) -> Group:
    """What take() gives, and is given back where the rest fails. Collective."""
    group = take(*what)
    undo.callback(give, group)
    return group


def _halves(undo: ExitStack, whole: Group, seconds: float) -> Halves:
    """With the group of this rank's half. Collective."""
    halves = Halves(whole)
    half = whole.together(lambda: _taken(undo, halves.half, seconds, halves.parts))
    halves.groups.append(half)
    if half not in whole.within:
        whole.within.append(half)
    return halves


def _way(ranks: Group, schedule: str, exchanges: Exchanges, halves: bool) -> Way:
    schedule = _schedule(schedule, ranks)
    exchanges.side_stream = schedule != "flat"
    return Way(ranks, schedule, exchanges, halves)


def _agree(whole: Group, ask: Callable[[], Asked]) -> tuple[int, Asked]:
    """Fails on all ranks where one of them is asked for something wrong, or for something else than others.
    Returns the number of this transformer, too. Collective."""
    global _numbers
    asked = whole.together(ask)
    whole.agree(asked.alike)
    # Ranks that are in other groups, too, have counted further.
    gone = {parallel.number: (parallel, group) for parallel, group in _gone if group is whole}
    every = whole.gather((_numbers, set(gone)))
    for number in sorted(set.intersection(*(numbers for _, numbers in every))):
        _gone.remove(gone[number])
        logger.warning("a transformer is gone that was not disabled: its exchanges are freed now")
        _release(*gone[number])
    number = max(count for count, _ in every)
    _numbers = number + 1
    return number, asked


def _release(parallel: Parallel, whole: Group) -> None:
    """Collective; what a torch.distributed that has ended cannot free any more is given up."""
    groups = {way.group.name: way.group for way in reversed(parallel.ways)} | {whole.name: whole}
    try:
        for way in parallel.ways:
            way.exchanges.close()
    except RuntimeError:
        if whole.lives:
            raise
    finally:
        parallel.close()
        for group in groups.values():
            give(group)


def _schedule(schedule: str, ranks: Group) -> str:
    """What "auto" is where no shape is timed: nothing travels, or by torch's own functions."""
    if schedule != "auto" or (ranks.library is not None and ranks.size > 1):
        return schedule
    return "flat" if ranks.one_node else "v-first"


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


def give_up(transformer: nn.Module, error: BaseException | None = None) -> None:
    """This rank has left a picture between forward passes, as by an error. Who waits for it in a pass fails
    at once; all others call this, too, when they know, and the next pass begins anew. Waits for nobody.

    :param error: that others are told
    """
    enabled(transformer).passes.give_up(error)


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
    remove_all(this.handles)
    now = processors_of(model)
    back = {
        name: this.originals[name] if now[name] is one else now[name]
        for name, one in this.ours.items()
        if name in now
    }
    set_processors(model, back)
    delattr(model, _STATE)
    if this.inputs is not None and this.inputs.seen():
        logger.error("ranks were given different things in a last pass, or in a replay: it gave NaN")
    this.release()
    return transformer
