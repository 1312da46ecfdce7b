"""Adapters over a transformer's layers, as peft has them: which there are, and how much of each counts."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Adapters:
    """Of one transformer. They come, go and change without a call of ours: look() notices."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.facts: dict[str, str] = {}  # what is at work in each layer that has some
        self._layers: list[Any] = []
        self._configs: dict[str, Any] = {}
        self._known: list[tuple[Any, ...]] = []  # what layers said when they were looked at

    def tensors(self) -> set[int]:
        """Whose bits are theirs, and not the layers' own: their identities."""
        found = set()
        for layer in self._layers:
            base = {id(x) for x in (*layer.base_layer.parameters(), *layer.base_layer.buffers())}
            found |= {id(x) for x in (*layer.parameters(), *layer.buffers())} - base
        return found

    def look(self, again: bool) -> tuple[bool, bool]:
        """Whether something has changed, and whether layers hold other sums with them (they were fused).

        :param again: layers are looked for, also where the list of adapters is the same
        """
        configs = getattr(self.model, "peft_config", None) or {}
        same = configs.keys() == self._configs.keys()
        others = not same or any(configs[name] is not self._configs[name] for name in configs)
        if again or others:
            self._configs = dict(configs)
            self._layers = [module for module in every_module(self.model) if is_adapter(module)]
        now = [state_of_adapter(layer) for layer in self._layers]
        if now == self._known and not others:
            return False, False
        fused = [state[1] for state in now] != [state[1] for state in self._known]
        self._known = [(dict(scales), list(merged), *rest) for scales, merged, *rest in now]
        self._tell()
        return True, fused

    def _tell(self) -> None:
        names = {id(module): name for name, module in self.model.named_modules()}
        self.facts = {
            f"{names[id(layer)]} (its adapters)": _words(*state)
            for layer, state in zip(self._layers, self._known, strict=True)
        }


def every_module(model: nn.Module) -> list[nn.Module]:
    """As modules() gives them, in less time."""
    found, waiting = {}, [model]
    while waiting:
        module = waiting.pop()
        if module is not None and module not in found:
            found[module] = None
            waiting.extend(reversed(module._modules.values()))
    return list(found)


def is_adapter(module: Any) -> bool:
    return "base_layer" in module._modules and isinstance(getattr(module, "merged_adapters", None), list)


def state_of_adapter(layer: Any) -> tuple[Any, ...]:
    """Without copies, as it is looked at in each pass."""
    scales = getattr(layer, "scaling", {})  # not all kinds have some
    return scales, layer.merged_adapters, layer._active_adapter, layer._disable_adapters


def _words(scales: dict[str, Any], merged: list[str], active: Any, off: bool) -> str:
    # A scale that is a tensor has bits, which are compared with those of the weights.
    scale_of = {name: "a tensor" if isinstance(scale, Tensor) else scale for name, scale in scales.items()}
    return f"scales {scale_of}, active {active}" + f", fused {merged}" * bool(merged) + ", off" * bool(off)
