"""Training with an enabled transformer.

The ranks compute one pass together, and each its own copy of what follows from the output, as the loss. One
copy counts, the first rank's: its gradient goes back through the transformer, and what has gone from rank to
rank in the pass goes the other way, as the sum of what it led to. So the gradients of all ranks together are
those of one process, wherever tokens were split and put together:

* parameters of the transformer: each rank has its tokens' part. sum_gradients() makes it the whole one
* inputs: they have the whole one, on all ranks, as whatever made them is outside, and each rank's own
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from .group import Group
from .parallel import Parallel, enabled
from .passes import Passes
from .patch import no_graph_alone

_BUCKET = 1 << 26  # bytes that are summed at once


@torch.library.custom_op(
    "dit_gradients::sum", mutates_args=(), schema="(Tensor gradient, int parallel) -> Tensor"
)
def summed(gradient: Tensor, parallel: int) -> Tensor:
    """Of all ranks. A backward pass comes here before it comes to any exchange."""
    this = enabled.get(parallel)
    if this is None:
        raise RuntimeError("the transformer was disabled: expected backward() before dit_torch.disable()")
    if this.no_training:
        raise NotImplementedError(
            f"a backward pass came to a transformer that was enabled with {this.no_training}: expected "
            "policy='exact' without cfg_parallel to train, or torch.no_grad() around the forward pass"
        )
    return this.group.sum_tensors(gradient)


@summed.register_fake
def _(gradient: Tensor, parallel: int) -> Tensor:
    return torch.empty_like(gradient, memory_format=torch.contiguous_format)


def part_of_sum(gradient: Tensor, dim: int, parallel: int) -> Tensor:
    """What goes back where parts were put together on a dimension: this rank's, of all ranks' sum."""
    total = torch.ops.dit_gradients.sum(gradient, parallel)
    return total.narrow(dim, *enabled[parallel].place(gradient.shape[dim])).contiguous()


class _Inputs(torch.autograd.Function):
    """Inputs as they are; their gradients are the sums of all ranks'."""

    @staticmethod
    def forward(ctx: Any, number: int, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.number = number
        return tuple([x.view_as(x) for x in inputs])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        return (None, *[torch.ops.dit_gradients.sum(one, ctx.number) for one in gradients])


class _Output(torch.autograd.Function):
    """An output as it is; its gradient counts on one rank."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, counts: bool, passes: Passes | None) -> Tensor:
        ctx.counts, ctx.passes = counts, passes
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        if ctx.passes is not None:
            ctx.passes.go_back()
        return (gradient if ctx.counts else torch.zeros_like(gradient)), None, None


def wants_gradient(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


class InputsHook:
    """Forward pre-hook of a transformer, before any that splits."""

    def __init__(self, parallel: Parallel) -> None:
        self.parallel = parallel

    @no_graph_alone
    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not torch.is_grad_enabled():
            return None
        add = self._add if torch.compiler.is_compiling() else self._add_alone
        return add(args, kwargs)

    def _add(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, form = pytree.tree_flatten((args, kwargs))
        at = [n for n, x in enumerate(leaves) if wants_gradient(x)]
        if not at:
            return None
        given = _Inputs.apply(self.parallel.number, *[leaves[n] for n in at])
        for n, x in zip(at, given, strict=True):
            leaves[n] = x
        return pytree.tree_unflatten(leaves, form)

    # Compilers that leave the hook alone would still begin with what it calls.
    _add_alone = torch.compiler.disable(_add)


class OutputHook:
    """Forward hook of a transformer, the last."""

    def __init__(self, parallel: Parallel, passes: Passes) -> None:
        self.parallel, self.passes = parallel, passes

    @no_graph_alone
    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        if not torch.is_grad_enabled():
            return None
        return self._count(output, None) if torch.compiler.is_compiling() else self._count_alone(output)

    def _count(self, output: Any, passes: Passes | None) -> Any:
        counts = self.parallel.group.rank == 0
        return pytree.tree_map(lambda x: _Output.apply(x, counts, passes) if wants_gradient(x) else x, output)

    @torch.compiler.disable
    def _count_alone(self, output: Any) -> Any:
        return self._count(output, self.passes)


def sum_gradients_of(parameters: list[nn.Parameter], group: Group) -> None:
    """Collective."""
    for p in parameters:
        if hasattr(p, "_local_tensor") or hasattr(p.grad, "_local_tensor"):
            raise ValueError(
                f"a parameter is a {type(p).__name__}, whose gradients were put together already; expected "
                "parameters that each rank has whole"
            )
    # What one rank's tokens needed nothing of has no gradient there.
    there = [any(ones) for ones in zip(*group.gather([p.grad is not None for p in parameters]), strict=True)]
    gradients = []
    for p, has in zip(parameters, there, strict=True):
        if has and p.grad is None:
            p.grad = torch.zeros_like(p)
        if p.grad is not None:
            gradients.append(p.grad)
    for kind in dict.fromkeys((x.device, x.dtype) for x in gradients):
        _sum([x for x in gradients if (x.device, x.dtype) == kind], group)


@torch.no_grad()
def _sum(gradients: list[Tensor], group: Group) -> None:
    """In place, of one type and device, many at once."""
    while gradients:
        bucket, size = [], 0
        while gradients and (not bucket or size + gradients[0].nbytes <= _BUCKET):
            bucket.append(gradients.pop(0))
            size += bucket[-1].nbytes
        total = group.sum_tensors(torch.cat([x.reshape(-1) for x in bucket]))
        for x, part in zip(bucket, total.split([x.numel() for x in bucket]), strict=True):
            x.copy_(part.view(x.shape))
