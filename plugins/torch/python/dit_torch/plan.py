"""Which inputs of a transformer are split between ranks, and where its output is put together again.

A plan is data: that of diffusers (a model's `_cp_plan`) or our own. Forward hooks carry it out: each split
takes this rank's part of a dimension, and notes under a name how many tokens there are in all; each gather
puts the parts together again. Token counts need not divide by the ranks. Which attention is over tokens of
all ranks a plan says, too, where a model's processors are diffusers': attention_calls.py carries that out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ._library import call
from .entries import (
    Alone,
    Argument,
    Attention,
    Change,
    Count,
    Gather,
    Join,
    Needs,
    OwnWay,
    Plan,
    Split,
)
from .layout import even_part
from .parallel import Parallel, enabled
from .patch import no_graph_alone, signature_of
from .sequence import WHOLE, sizes_of_all, sizes_of_part
from .symbol import may_vary
from .training import part_of_sum

# How arguments that carry tokens are named in diffusers -> our name of the stream.
STREAMS = {"hidden_states": "image", "encoder_hidden_states": "text", "audio_hidden_states": "audio"}


def from_diffusers(transformer: nn.Module) -> Plan:
    """The model's own `_cp_plan`, and what it leaves out; empty when it has none."""
    entries: list[Split | Gather] = []
    for module, what in _by_lists(getattr(transformer, "_cp_plan", None) or {}):
        if isinstance(what, dict):
            for name, given in what.items():
                for one in given if isinstance(given, (list, tuple)) else (given,):
                    stream = STREAMS.get(name) if isinstance(name, str) else None
                    entries.append(Split(module, name, one.split_dim, one.expected_dims, stream))
            continue
        for index, one in enumerate(what if isinstance(what, (list, tuple)) else (what,)):
            if one is not None:
                stream = "audio" if module.startswith("audio") else "image"
                entries.append(Gather(module, one.gather_dim, index, stream))
    return (*entries, *_timesteps(transformer, entries))


def _by_lists(plan: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Entries that name the modules of a list one by one, from the first on, are for all of the list: it may
    have fewer, or more, than the published model that the plan was written for."""
    numbered: dict[tuple[str, str], list[tuple[int, Any]]] = {}
    others: list[tuple[str, Any]] = []
    for path, what in plan.items():
        found = re.fullmatch(r"(.+?)\.(\d+)(\..+)?", path)
        if found is None:
            others.append((path, what))
        else:
            numbered.setdefault((found[1], found[3] or ""), []).append((int(found[2]), what))
    for (before, after), entries in numbered.items():
        numbers = [number for number, _ in entries]
        alike = all(what == entries[0][1] for _, what in entries)
        if alike and len(numbers) > 1 and sorted(numbers) == list(range(len(numbers))):
            others.append((f"{before}.*{after}", entries[0][1]))
        else:
            others += [(f"{before}.{number}{after}", what) for number, what in entries]
    return others


def _timesteps(transformer: nn.Module, entries: list[Split | Gather]) -> Plan:
    """Timesteps of single tokens, as image-to-video has them, are split where the tokens are split for all
    blocks at once: plans leave that out."""
    splits = [entry for entry in entries if isinstance(entry, Split)]
    at_once = any(
        entry.stream == "image" and (entry.module == "" or entry.module.endswith(".0")) for entry in splits
    )
    known = any(entry.module == "" and entry.name == "timestep" for entry in splits)
    if not at_once or known or "timestep" not in signature_of(transformer).parameters:
        return ()
    return (Split("", "timestep", 1, 2, one_for_all=True),)


def modules_of(transformer: nn.Module, path: str) -> list[nn.Module]:
    """Modules that a path names."""
    found = [transformer]
    for atom in filter(None, path.split(".")):
        if atom == "*":
            found = [child for module in found for child in module.children()]
        elif atom == "-1" and all(len(module._modules) > 0 for module in found):
            found = [list(module.children())[-1] for module in found]
        elif all(hasattr(module, atom) for module in found):
            # One that a configuration leaves out is None.
            found = [getattr(module, atom) for module in found if getattr(module, atom) is not None]
        else:
            raise ValueError(
                f"plan: {type(transformer).__name__} has no module {path}; {_expected(transformer)}"
            )
    return found


def _expected(module: nn.Module) -> str:
    """What a module should be like that does not fit its plan: one of diffusers', or of somebody's own."""
    bases = [cls for cls in type(module).__mro__ if cls.__module__.startswith("diffusers.")]
    if not bases or bases[0] is type(module):
        return "expected the modules of the diffusers versions that were tested, 0.36 to 0.42"
    return (
        f"expected those of {bases[0].__name__}, which it derives from and is split as: a subclass may add "
        "modules and arguments, and leaves these their names"
    )


def apply(transformer: nn.Module, plan: Plan, parallel: Parallel) -> list[RemovableHandle]:
    """Registers the hooks. What is returned removes them."""
    handles: list[RemovableHandle] = []
    try:
        _register(transformer, plan, parallel, handles)
    except Exception:
        for handle in handles:
            handle.remove()
        raise
    return handles


def _register(transformer: nn.Module, plan: Plan, parallel: Parallel, handles: list[RemovableHandle]) -> None:
    for path in dict.fromkeys(entry.module for entry in plan):
        inputs, outputs, gathers = [], [], []
        for entry in plan:
            if entry.module != path or isinstance(entry, (Attention, Alone, OwnWay)):
                continue
            if isinstance(entry, Gather):
                gathers.append(entry)
            elif isinstance(entry.name, int):
                outputs.append(entry)
            else:
                inputs.append(entry)
        for module in modules_of(transformer, path):
            if inputs:
                hook = _inputs(module, tuple(inputs), parallel)
                handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
            if outputs or gathers:
                handles.append(module.register_forward_hook(_outputs(outputs, gathers, parallel)))


def split(x: Any, entry: Split, parallel: Parallel) -> Any:
    """This rank's part of a tensor, or of each tensor of a list."""
    if isinstance(x, (list, tuple)):
        return type(x)(split(one, entry, parallel) for one in x)
    if isinstance(x, dict):
        return {key: split(one, entry, parallel) for key, one in x.items()}
    if not isinstance(x, Tensor) or (entry.dims is not None and x.dim() != entry.dims):
        return x
    total = x.shape[entry.dim]
    if total == 1 and (entry.one_for_all or entry.of is not None):
        return x
    if entry.of is not None:
        return _split_table(x, entry, entry.of, parallel)
    if total < entry.least * parallel.group.size:
        raise ValueError(
            f"{entry.name}: {total} tokens on {parallel.group.size} ranks; expected {entry.least} for each "
            f"rank at least, as {entry.module or 'the transformer'} needs them"
        )
    if entry.stream is not None:
        parallel.tokens[entry.stream] = total
    # Dense, as what comes out of the layers after it is: compiled code is then shared. contiguous() would
    # leave the stride of the whole tensor to a batch of one.
    part = x.narrow(entry.dim, *parallel.place(total)).clone(memory_format=torch.contiguous_format)
    return may_vary(part, entry.dim)


def _split_table(x: Tensor, entry: Split, streams: str, parallel: Parallel) -> Tensor:
    pieces, at = [], 0
    for name, size in sizes_of_all(streams, x.shape[entry.dim], parallel, str(entry)):
        start, count = (0, size) if name == WHOLE else parallel.place(size)
        pieces.append(x.narrow(entry.dim, at + start, count))
        at += size
    return pieces[0].contiguous() if len(pieces) == 1 else torch.cat(pieces, entry.dim)


def _may_be_absent(entry: Argument) -> bool:
    return isinstance(entry, Count) or (isinstance(entry, Split) and entry.optional)


def _inputs(module: nn.Module, entries: tuple[Argument, ...], parallel: Parallel) -> Callable[..., Any]:
    positions = {name: at for at, name in enumerate(signature_of(module).parameters)}
    entries = tuple(e for e in entries if e.name in positions or not _may_be_absent(e))
    for entry in entries:
        if entry.name not in positions:
            raise ValueError(
                f"plan: {type(module).__name__}.forward has no argument {entry.name}; {_expected(module)}"
            )

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple, dict]:
        given = list(args)
        change = _changed if torch.compiler.is_compiling() else _changed_alone
        for entry in entries:
            at = positions[entry.name]  # type: ignore[index]
            if entry.name in kwargs:
                kwargs[entry.name] = change(kwargs[entry.name], entry, parallel)
            elif at < len(given):
                given[at] = change(given[at], entry, parallel)
            else:
                change(None, entry, parallel)
        return tuple(given), kwargs

    return no_graph_alone(hook)


def _changed(x: Any, entry: Argument, parallel: Parallel) -> Any:
    """An argument as its module gets it."""
    if isinstance(entry, Needs) and x is None:
        raise ValueError(f"{entry.name} is None: expected one, as {entry.why}")
    if isinstance(entry, Split) and entry.stream is not None and x is None:
        parallel.tokens[entry.stream] = 0  # a pass without it
    if x is None or isinstance(entry, Needs):
        return x
    if isinstance(entry, Split) and entry.at is not None:
        return type(x)(split(one, entry, parallel) if at == entry.at else one for at, one in enumerate(x))
    if isinstance(entry, Split):
        return split(x, entry, parallel)
    if isinstance(entry, Change):
        return entry.how(x, parallel)
    if isinstance(entry, Join):
        if entry.dims is not None and x.dim() != entry.dims:
            return x
        return gather_all(x, entry.dim, entry.stream, parallel)
    if isinstance(entry, Count):
        start, count = parallel.place(parallel.tokens[entry.stream])
        return min(max(x - start, 0), count)
    raise ValueError(f"{entry.name} is given: expected None, as {entry.why}")


# By itself: it notes counts as symbols for the graph that comes after it, which one of its own could not.
_changed_alone = torch.compiler.disable(_changed)


def _outputs(changes: list[Split | Change], gathers: list[Gather], parallel: Parallel) -> Callable[..., Any]:
    def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        change = _changed_output if torch.compiler.is_compiling() else _changed_output_alone
        return change(output, changes, gathers, parallel)

    return no_graph_alone(hook)


def _changed_output(
    output: Any, changes: list[Split | Change], gathers: list[Gather], parallel: Parallel
) -> Any:
    """A module's output as others get it."""
    single = isinstance(output, Tensor)
    given = [output] if single else dict(output) if isinstance(output, dict) else list(output)
    for entry in changes:
        given[entry.name] = _changed(given[entry.name], entry, parallel)  # type: ignore[index, call-overload]
    for one in gathers:
        given[one.index] = gather_all(given[one.index], one.dim, one.stream, parallel)  # type: ignore[index]
    if single:
        return given[0]
    return type(output)(**given) if isinstance(given, dict) else type(output)(given)


_changed_output_alone = torch.compiler.disable(_changed_output)


def gather_all(x: Tensor, dim: int, streams: str, parallel: Parallel) -> Tensor:
    """All tokens of a dimension that has this rank's of some streams."""
    if x is None:
        return x
    pieces, at = [], 0
    for name, size in sizes_of_part(streams, x.shape[dim], parallel, "gather"):
        piece = x.narrow(dim, at, size)
        if name != WHOLE:
            piece = gather(piece, dim, parallel.tokens[name], parallel)
        pieces.append(piece)
        at += size
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim)


def gather(x: Tensor, dim: int, total: int, parallel: Parallel) -> Tensor:
    """All ranks' parts of `total` tokens, put together on a dimension."""
    if parallel.group.size == 1:
        return x
    if torch.is_grad_enabled() and x.requires_grad:
        return torch.ops.dit_gradients.gather(x, dim, total, parallel.number)
    return _gathered(x, dim, total, parallel)


def _gathered(x: Tensor, dim: int, total: int, parallel: Parallel) -> Tensor:
    # NCCL's kernel waits for a rank that is gone without an end. gloo's ends with that rank, and fails for
    # good where one did not come in time: ours would take what is left of one pass for the next one's.
    if parallel.native and x.is_cuda:
        arguments = (x, dim if dim >= 0 else dim + x.dim(), total, parallel.group.name)
        return call(torch.ops.dit.all_gather, parallel.group.name, *arguments)
    return _all_gather(x, dim, total, parallel.number)


@torch.library.custom_op(
    "dit_reference::all_gather",
    mutates_args=(),
    schema="(Tensor x, int dim, SymInt total, int parallel) -> Tensor",
)
def _all_gather(x: Tensor, dim: int, total: int, parallel: int) -> Tensor:
    group = enabled[parallel].group
    counts = [len(even_part(total, group.size, rank)) for rank in range(group.size)]
    most = max(counts)
    padded = x.new_zeros((most, *x.movedim(dim, 0).shape[1:]))
    padded[: x.shape[dim]].copy_(x.movedim(dim, 0))
    # One tensor for all ranks: parts differ by one token at most.
    every = group.gather_tensors(padded)
    parts = [every[rank, :count] for rank, count in enumerate(counts)]
    return torch.cat(parts).movedim(0, dim).contiguous()


@_all_gather.register_fake
def _gathered_like(x: Tensor, dim: int, total: int, parallel: int) -> Tensor:
    shape = list(x.shape)
    shape[dim] = total
    return x.new_empty(shape)


@torch.library.custom_op(
    "dit_gradients::gather",
    mutates_args=(),
    schema="(Tensor x, int dim, SymInt total, int parallel) -> Tensor",
)
def _gather_with_gradients(x: Tensor, dim: int, total: int, parallel: int) -> Tensor:
    return _gathered(x, dim, total, enabled[parallel])


_gather_with_gradients.register_fake(_gathered_like)
_gather_with_gradients.register_autograd(
    lambda ctx, gradient: (part_of_sum(gradient, ctx.dim, ctx.parallel), None, None, None),
    setup_context=lambda ctx, inputs, output: vars(ctx).update(dim=inputs[1], parallel=inputs[3]),
)
