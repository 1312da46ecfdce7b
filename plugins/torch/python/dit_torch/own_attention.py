"""Modules that attend in a way of their own, in each head by itself: linear attention, or masks that are made
from Q and K. They run on all tokens, in this rank's heads.

What the modules that make Q, K and V give goes to the head layout where it comes out of them, and what the
module attended comes back where it goes into its projection; in between is their code.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from .entries import OwnWay
from .exchange import KEY, QUERY, VALUE
from .layer_number import LayerNumber
from .layout import heads_part
from .parallel import Parallel


def check_heads(heads: int, ranks: int, where: str) -> None:
    """Fails where some rank would have none: here ranks cannot share one."""
    if ranks > heads:
        raise ValueError(
            f"{where} has {heads} heads, and there are {ranks} ranks: expected a head for each rank at "
            "least, as it attends in a way of its own"
        )


class OwnAttention:
    """The hooks of one module, until remove().

    :param where: the module's name, for errors
    """

    def __init__(self, parallel: Parallel, layer: int, entry: OwnWay, module: nn.Module, where: str) -> None:
        self.parallel, self.layer = parallel, LayerNumber(layer)
        self.entry, self.module, self.where = entry, module, where
        self.heads = int(getattr(module, entry.heads))
        self.seen: list[str] = []  # of the modules that are exchanged, in this run
        self.handles: list[RemovableHandle] = [
            module.register_forward_pre_hook(self._begin),
            module.register_forward_hook(self._end, always_call=True),
            module.get_submodule(entry.output).register_forward_pre_hook(self._back),
        ]
        for name, what in zip(entry.inputs, (QUERY, KEY, VALUE), strict=True):
            hook = self._there(name, what)
            self.handles.append(module.get_submodule(name).register_forward_hook(hook))

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def _own(self) -> int:
        group = self.parallel.group
        return len(heads_part(self.heads, group.size, group.rank))

    def _begin(self, module: nn.Module, args: Any) -> None:
        self.seen = []
        if self.entry.tells:
            setattr(module, self.entry.heads, self._own())

    def _end(self, module: nn.Module, args: Any, output: Any) -> None:
        if self.entry.tells:
            setattr(module, self.entry.heads, self.heads)
        expected = sorted((*self.entry.inputs, self.entry.output))
        if output is not None and sorted(self.seen) != expected:
            raise RuntimeError(
                f"{self.where} has called {self.seen}: expected {expected} once each; else it has attended "
                "over tokens of this rank"
            )

    def _exchange(self, x: Tensor) -> Any:
        return self.parallel.joint(x, text=None, image="image", kv_heads=self.heads)

    def _there(self, name: str, what: int) -> Any:
        def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
            self.seen.append(name)
            x = output.unflatten(2, (self.heads, output.shape[2] // self.heads))
            exchange, layer = self._exchange(x), self.parallel.layer(self.layer)
            return exchange.finish(exchange.start(what, x, layer), layer).flatten(2)

        return hook

    def _back(self, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        self.seen.append(self.entry.output)
        x, *rest = args
        own = self._own()
        x = x.contiguous().unflatten(2, (own, x.shape[2] // own))
        rows = self.parallel.place(x.shape[1])[1]
        whole = x[:, :1, :1].expand(-1, rows, self.heads, -1)  # for its sizes
        return (self._exchange(whole).gather(x, self.parallel.layer(self.layer)).flatten(2), *rest)
