"""The first pass of an enabled transformer, compared with what one rank computes by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from .group import Group
from .patch import no_graph_alone

# How far two results of the same numbers may be apart by rounding, of their norm.
TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}
_OTHERS = 1e-2


class Verify:
    """Until a pass was right, or remove(). An error is the same on all ranks.

    :param unsplit: while it is entered, the model's modules are as they were before enable()
    """

    def __init__(
        self, model: nn.Module, group: Group, unsplit: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.group, self.unsplit = group, unsplit
        self.forward = model.forward
        self.expected: list[Tensor] | None = None  # of the pass that is under way
        # Before inputs are split, and behind what puts outputs together.
        self.handles = [model.register_forward_pre_hook(self._before, with_kwargs=True)]

    def compare(self, model: nn.Module) -> None:
        """After all hooks that change an output."""
        self.handles.append(model.register_forward_hook(self._after))

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles = []

    @no_graph_alone
    def _before(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not torch.compiler.is_compiling():
            self._compute(args, kwargs)

    @torch.compiler.disable
    def _compute(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.expected = None
        with self.unsplit(), _uncompiled():
            self.expected = tensors(self.forward(*_copied(args), **_copied(kwargs)))

    @no_graph_alone
    def _after(self, model: nn.Module, args: Any, output: Any) -> None:
        if not torch.compiler.is_compiling():
            self._compare(output)

    @torch.compiler.disable
    def _compare(self, output: Any) -> None:
        if self.expected is None:
            return
        expected, self.expected = self.expected, None
        self.group.together(lambda: check(tensors(output), expected))
        self.remove()


def _uncompiled() -> AbstractContextManager[Any]:
    """Blocks that are compiled run as they are: their graphs for this one pass would be of no use later."""
    stance = getattr(torch.compiler, "set_stance", None)  # torch 2.6
    return nullcontext() if stance is None else stance("force_eager")


def check(found: list[Tensor], expected: list[Tensor]) -> None:
    """Fails where they differ by more than rounding."""
    shapes = [tuple(x.shape) for x in found], [tuple(x.shape) for x in expected]
    if shapes[0] != shapes[1]:
        raise ValueError(f"verify: all ranks together give outputs of {shapes[0]}; expected {shapes[1]}")
    for number, (x, right) in enumerate(zip(found, expected, strict=True)):
        away, tolerance = difference(x, right), _tolerance(right)
        if not away <= tolerance:
            raise ValueError(
                f"verify: output {number} of all ranks together is {away:.2g} of its norm away from one "
                f"rank's; expected {tolerance:g} at most: the plan leaves something out that mixes tokens, "
                "or a table that goes with them"
            )


def difference(x: Tensor, right: Tensor) -> float:
    """Of the norm of what is right."""
    norm = float(right.double().norm())
    away = float((x.double() - right.double()).norm())
    return away / norm if norm > 0 else (0.0 if away == 0 else math.inf)


def _tolerance(x: Tensor) -> float:
    tf32 = x.is_cuda and x.dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32
    return TOLERANCES[torch.float16] if tf32 else TOLERANCES.get(x.dtype, _OTHERS)


def tensors(output: Any) -> list[Tensor]:
    """Of an output, which may be nested."""
    if isinstance(output, Tensor):
        return [output]
    inner = list(output.values()) if isinstance(output, dict) else output
    return [x for one in inner for x in tensors(one)] if isinstance(inner, (list, tuple)) else []


def _copied(x: Any) -> Any:
    """Lists and mappings that a forward may take things out of, with the same tensors."""
    if type(x) in (list, tuple):
        return type(x)(map(_copied, x))
    return {key: _copied(one) for key, one in x.items()} if type(x) is dict else x
