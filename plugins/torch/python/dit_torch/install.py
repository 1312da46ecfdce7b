"""install(): programs that call torch.distributed.all_to_all_single get the device exchange.

diffusers' own Ulysses, xDiT, yunchang and DeepSpeed-Ulysses do. What is not an all-to-all of CUDA tensors in
one of the installed groups goes the way that it went before, as do all other collectives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import Tensor

from ._library import call
from .group import Group, give, take


class _Finished(dist.Work):
    """For async_op=True: on a device everything is in the stream's order."""

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


class _Installed:
    """The groups whose exchanges are ours."""

    def __init__(self, groups: list[Group], devices: tuple[str, ...]) -> None:
        self.groups = {str(one.ranks): one for one in groups}
        self.devices = devices


def _replace(before: tuple[Any, Any], by: tuple[Any, Any]) -> None:
    """Wherever the functions are known by their names: programs import them when they like."""
    instead = {id(one): other for one, other in zip(before, by, strict=True)}
    for module in list(sys.modules.values()):
        found = getattr(module, "__dict__", {}).get("all_to_all_single")
        if id(found) in instead:
            setattr(module, "all_to_all_single", instead[id(found)])  # noqa: B010


_installed: _Installed | None = None
# What was there before us. Programs may keep ours when it is uninstalled, having imported it by its name.
_plain: Callable[..., Any] = dist.all_to_all_single
_plain_functional: Callable[..., Tensor] = funcol.all_to_all_single


@torch._dynamo.assume_constant_result  # known while a graph is traced
def _group_name(group: Any, device: str) -> str | None:
    """The name of our group of the same ranks; None: it goes another way."""
    if _installed is None or device not in _installed.devices:
        return None
    if group is not None and not isinstance(group, dist.ProcessGroup):
        return None
    found = _installed.groups.get(str(dist.get_process_group_ranks(group or dist.group.WORLD)))
    return found.name if found is not None and found.lives else None


def _all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """In place of torch.distributed.all_to_all_single."""
    name = _group_name(group, input.device.type)
    if name is None:
        return _plain(output, input, output_split_sizes, input_split_sizes, group, async_op)
    # Which way it goes must not depend on strides: other ranks may have others.
    dense = (
        output if output.is_contiguous() else torch.empty_like(output, memory_format=torch.contiguous_format)
    )
    _exchange(dense, input.contiguous(), output_split_sizes, input_split_sizes, name)
    if dense is not output:
        output.copy_(dense)
    return _Finished() if async_op else None


def _exchange(
    output: Tensor, input: Tensor, output_splits: list[int] | None, input_splits: list[int] | None, name: str
) -> None:
    arguments = (output, input, output_splits or [], input_splits or [], name)
    call(torch.ops.dit.all_to_all.default, name, *arguments)


def _functional(
    self: Tensor,
    output_split_sizes: list[int] | None,
    input_split_sizes: list[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """In place of the function of torch.distributed._functional_collectives, which diffusers calls."""
    name = _group_name(group, self.device.type)
    if name is None:
        return _plain_functional(self, output_split_sizes, input_split_sizes, group, tag)
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    output = self.new_empty((rows, *self.shape[1:]))
    _exchange(output, self.contiguous(), output_split_sizes, input_split_sizes, name)
    return output


_OURS = (_all_to_all_single, _functional)


def install(*groups: dist.ProcessGroup, devices: tuple[str, ...] = ("cuda",)) -> None:
    """From now on all_to_all_single of these groups goes through libdit's exchange. Collective over each.

    :param groups: none: all ranks
    :param devices: types of the devices whose tensors go this way: "cuda", and "cpu" for tests
    """
    global _installed, _plain, _plain_functional
    if _installed is not None:
        raise RuntimeError("dit_torch.install() was called before; expected uninstall() between")
    with ExitStack() as undo:
        taken = []
        for group in groups or (None,):
            taken.append(take(group, 300.0))
            undo.callback(give, taken[-1])
        if taken[0].library is None:  # on all ranks alike
            raise RuntimeError(
                "dit_torch.install() needs libdit_torch.so, which is not there: build it with pip install "
                "--no-build-isolation ./plugins/torch, or name it in DIT_TORCH_LIBRARY"
            )
        undo.pop_all()
    _installed = _Installed(taken, devices)
    _plain, _plain_functional = dist.all_to_all_single, funcol.all_to_all_single
    _replace((_plain, _plain_functional), _OURS)


def uninstall() -> None:
    """Takes install() back. Collective."""
    global _installed
    if _installed is not None:
        this, _installed = _installed, None
        _replace(_OURS, (_plain, _plain_functional))
        for group in this.groups.values():
            give(group)
