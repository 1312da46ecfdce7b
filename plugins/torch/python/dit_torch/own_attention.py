"""Modules that attend in a way of their own, in each head by itself: linear attention, or masks that are made
from Q and K. They run on all tokens, in this rank's heads.

Q, K and V are projected and go to the head layout in one exchange. The module's own processor then gets what
arrived where it would project, and what it attended comes back where it goes into the output's projection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from .entries import OwnWay
from .processors.base import Processor, heads


def check_heads(heads: int, ranks: int, where: str) -> None:
    """Fails where some rank would have none: here ranks cannot share one."""
    if ranks > heads:
        raise ValueError(
            f"{where} has {heads} heads, and there are {ranks} ranks: expected a head for each rank at "
            "least, as it attends in a way of its own"
        )


class _Layer:
    """In place of one of the module's."""

    def __init__(self, does: Callable[[Tensor], Tensor]) -> None:
        self.does = does
        self.calls = 0

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.does(x)


class _Arrived:
    """The module to its processor."""

    def __init__(self, module: nn.Module, others: dict[str, Any]) -> None:
        self._module = module
        for name, one in others.items():
            setattr(self, name, one)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class OwnAttention(Processor):
    """In place of the module's processor, which is given the module and its tokens first."""

    def __init__(self, entry: OwnWay, *given: Any) -> None:
        super().__init__(*given)
        self.entry = entry

    def __call__(
        self, attn: Any, hidden_states: Tensor, *args: Any, rotary_emb: Any = None, **kwargs: Any
    ) -> Any:
        if rotary_emb is not None:  # diffusers' Attention hands on what it finds here by its name
            kwargs["rotary_emb"] = rotary_emb
        entry, layer = self.entry, self.parallel.layer(self.layer)
        all_heads = getattr(attn, entry.heads)
        v, k, q = (self._projected(attn, names, hidden_states) for names in reversed(entry.inputs))
        q, k, v = (heads(x.to(v.dtype), x.shape[2] // all_heads) for x in (q, k, v))
        exchange = self.parallel.joint(v, text=None, image="image")
        arrived = exchange.scatter_qkv(q, k, v, layer)
        own, projection = arrived[0].shape[2], attn.get_submodule(entry.output)

        def back(x: Tensor) -> Tensor:
            o = exchange.gather(x.contiguous().unflatten(2, (own, -1)), layer)
            return projection(o.flatten(2))

        instead = {
            name: _Layer(lambda _, x=x: x.flatten(2))
            for names, x in zip(entry.inputs, arrived, strict=True)
            for name in names
            if getattr(attn, name) is not None
        } | {entry.output: _Layer(back)}
        o = self.original(self._told(attn, own, instead), hidden_states, *args, **kwargs)
        wrong = [name for name, one in instead.items() if one.calls != 1]
        if wrong:
            raise RuntimeError(
                f"{self.where} has not called {', '.join(wrong)} once: else it has attended over tokens of "
                "this rank"
            )
        return o

    def _told(self, attn: Any, own: int, instead: dict[str, _Layer]) -> _Arrived:
        """The module with layers in the place of some, of which one may be in a list."""
        others: dict[str, Any] = {self.entry.heads: own}
        for path, one in instead.items():
            name, _, number = path.partition(".")
            layers = getattr(attn, name)
            others[name] = [one if number == str(at) else x for at, x in enumerate(layers)] if number else one
        return _Arrived(attn, others)

    def _projected(self, attn: Any, names: tuple[str, ...], x: Tensor) -> Tensor:
        for name in names:
            layer = getattr(attn, name)
            x = x if layer is None else layer(x)
        return x
