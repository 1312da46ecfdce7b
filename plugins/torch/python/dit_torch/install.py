"""install(): programs that call torch.distributed.all_to_all_single get the device exchange.

diffusers' own Ulysses, xDiT, yunchang and DeepSpeed-Ulysses do. What is not an all-to-all of CUDA tensors in
one of the installed groups goes the way that it went before, as do all other collectives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import Tensor

from ._library import library
from .group import Group, give, take


class _Finished(dist.Work):
    """For async_op=True: on a device everything is in the stream's order."""

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


class _Installed:
    """The functions that were there, and the groups whose exchanges are ours."""

    def __init__(self, groups: list[Group], devices: tuple[str, ...]) -> None:
        self.groups = {str(one.ranks): one for one in groups}
        self.devices = devices
        self.plain: Callable[..., Any] = dist.all_to_all_single
        self.functional: Callable[..., Tensor] = funcol.all_to_all_single
        self.places: list[tuple[Any, str, Any]] = []  # what was replaced: module, name, before

    def replace(self) -> None:
        """Wherever the functions are known by their names: programs import them before we come."""
        ours = {id(self.plain): _all_to_all_single, id(self.functional): _functional}
        for module in list(sys.modules.values()):
            before = getattr(module, "__dict__", {}).get("all_to_all_single")
            if id(before) in ours:
                setattr(module, "all_to_all_single", ours[id(before)])  # noqa: B010
                self.places.append((module, "all_to_all_single", before))

    def put_back(self) -> None:
        for module, name, before in self.places:
            setattr(module, name, before)


_installed: _Installed | None = None


@torch._dynamo.assume_constant_result  # known while a graph is traced
def _group_name(group: Any, device: str) -> str | None:
    """The name of our group of the same ranks; None: it goes another way."""
    if _installed is None or device not in _installed.devices:
        return None
    if group is not None and not isinstance(group, dist.ProcessGroup):
        return None
    found = _installed.groups.get(str(dist.get_process_group_ranks(group or dist.group.WORLD)))
    return None if found is None else found.name


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
    if name is None or not (input.is_contiguous() and output.is_contiguous()):
        assert _installed is not None
        return _installed.plain(output, input, output_split_sizes, input_split_sizes, group, async_op)
    torch.ops.dit.all_to_all(output, input, output_split_sizes or [], input_split_sizes or [], name)
    return _Finished() if async_op else None


def _functional(
    self: Tensor,
    output_split_sizes: list[int] | None,
    input_split_sizes: list[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """In place of the function of torch.distributed._functional_collectives, which diffusers calls."""
    name = _group_name(group, self.device.type)
    if name is None or not self.is_contiguous():
        assert _installed is not None
        return _installed.functional(self, output_split_sizes, input_split_sizes, group, tag)
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    output = self.new_empty((rows, *self.shape[1:]))
    torch.ops.dit.all_to_all(output, self, output_split_sizes or [], input_split_sizes or [], name)
    return output


def install(*groups: dist.ProcessGroup, devices: tuple[str, ...] = ("cuda",)) -> None:
    """From now on all_to_all_single of these groups goes through libdit's exchange. Collective over each.

    :param groups: none: all ranks
    :param devices: types of the devices whose tensors go this way: "cuda", and "cpu" for tests
    """
    global _installed
    if _installed is not None:
        raise RuntimeError("dit_torch.install() was called before; expected uninstall() between")
    if library() is None:
        raise RuntimeError(
            "dit_torch.install() needs libdit_torch.so, which is not there: build it with pip install "
            "./plugins/torch, or name it in DIT_TORCH_LIBRARY"
        )
    _installed = _Installed([take(group, 300.0) for group in (groups or (None,))], devices)
    _installed.replace()


def uninstall() -> None:
    """Takes install() back. Collective."""
    global _installed
    if _installed is not None:
        this, _installed = _installed, None
        this.put_back()
        for group in this.groups.values():
            give(group)
