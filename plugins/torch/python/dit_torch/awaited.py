"""A tensor whose numbers come later: when somebody reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

# What asks for no numbers. Properties ("__get__") are of the shape, or come as an operator after that.
_OF_SHAPE = {"__get__", "size", "dim", "ndimension", "numel", "nelement", "__len__", "is_floating_point"}


class Awaited(Tensor):
    """Has shape, type and device; every operator gets what `value` returns instead. A part of it is awaited,
    too, as pipelines cut off the tokens that they added."""

    value: Callable[[], Tensor]

    @staticmethod
    def __new__(cls, shape: Any, dtype: torch.dtype, device: torch.device, value: Any) -> Awaited:
        made = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)
        made.value = value
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ in _OF_SHAPE:
            found = super().__torch_function__(func, types, args, kwargs)
            if not isinstance(found, Tensor):  # as `data` and `T` are
                return found
        if func.__name__ == "__getitem__" and isinstance(args[0], Awaited):
            whole, index = args
            shape = torch.empty(whole.shape, device="meta")[index].shape
            return Awaited(shape, whole.dtype, whole.device, lambda: whole.value()[index])
        return func(*_plain(args), **_plain(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*_plain(args), **_plain(kwargs or {}))


def _plain(given: Any) -> Any:
    return pytree.tree_map_only(Awaited, lambda one: one.value(), given)
