"""What a transformer computes with, alike on all ranks: a digest of it, which is made anew when needed."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .adapters import Adapters, every_module
from .difference import Fact, difference
from .digest import described, digest, digests, digests_on_host, plain_parts, word
from .group import Group
from .verdict import is_captured

_PROMPTS = 4  # that are known as one picture's: more than guidance has branches
_PASSES = 16  # that are taken for one picture's at most: programs may keep a prompt for the next one
_WHAT_TO_DO = (
    "; expected the same on all of them: load the same files, give the same seed where weights are random, "
    "and load, scale, fuse and unload adapters on all ranks alike"
)


class Weights:
    """Of one transformer, or of a `kind` of model: parameters, buffers and adapters.

    compare() looks at all of them. From then on look() does, in each pass, at what the host can see at once.
    The bits of adapters are digested again when a picture begins or adapters have changed, and those of the
    rest when they have another version, or adapters were fused with them. Not all that writes to them changes
    their versions: of the first row of each a picture begins with a digest, too.
    """

    def __init__(self, model: nn.Module, kind: str = "transformer") -> None:
        self.model, self.kind = model, kind
        self.adapters = Adapters(model)
        self._versions = (0, 0)
        self._bits: dict[bool, Tensor] = {}  # of adapters, and of the rest
        self._words = 0  # a digest of the words for adapters
        self._rows = torch.zeros((), dtype=torch.int64)  # of first rows
        self._prompts: list[list[tuple[Any, int]]] = []
        self._passes = 0  # of the picture

    def compare(self, group: Group) -> None:
        """Fails on all ranks, with names, where something differs. Collective; the host waits for it."""
        self.adapters.look(again=True)
        self._bits.clear()
        self._rows = torch.zeros_like(self._rows)
        facts = {name: Fact(words) for name, words in self.adapters.facts.items()}
        all_parts = {name: list(plain_parts(x)) for name, x in _tensors(self.model)}
        bits = iter(digests_on_host([part for parts in all_parts.values() for part in parts]))
        for name, x in _tensors(self.model):
            facts[name] = Fact(described(x), hash(tuple(next(bits) for _ in all_parts[name])))
        if len(set(group.gather(word(str(facts))))) > 1:
            found = difference(group.ranks, group.gather(facts))
            raise ValueError(f"the {self.kind}'s {found}{_WHAT_TO_DO}")

    def look(self, given: dict[str, Tensor], device: torch.device) -> Tensor:
        """The digest of what is there now, [] int64 on the device. The host does not wait.

        :param given: to the pass, by name: a prompt that was not there before begins a picture
        """
        if is_captured():  # what is computed now would be so in replays only
            return sum(self._bits.values(), self._rows.to(device)) + self._words
        begins = self._begins(given)
        changed, fused = self.adapters.look(again=begins)
        if begins:
            there = _there(self.model)
            before, self._versions = self._versions, (len(there), sum(map(_version, there)))
            fused = fused or before != self._versions
            with torch.no_grad():
                parts = (part for x in there if not x.is_meta for part in plain_parts(x))
                self._rows = _digest((part[:1] if part.dim() > 0 else part for part in parts), device)
        if fused:
            self._bits.clear()
        if begins or changed:
            self._bits.pop(True, None)
            self._words = word(str(self.adapters.facts))
        for adapters in (False, True):
            if adapters not in self._bits:
                own = self.adapters.tensors()
                every = _tensors(self.model) if own or not adapters else ()
                chosen = (x for _, x in every if (id(x) in own) == adapters)
                self._bits[adapters] = _digest((part for x in chosen for part in plain_parts(x)), device)
        return self._bits[True] + self._bits[False] + self._rows.to(device) + self._words

    def _begins(self, given: dict[str, Tensor]) -> bool:
        """As far as the host can tell: a prompt is another tensor. Where none has that name, as with lists of
        them, all that was given is."""
        prompt = given.get("encoder_hidden_states")
        now = [prompt] if prompt is not None else list(given.values())
        self._passes = (self._passes + 1) % _PASSES
        for known, then in itertools.chain(*self._prompts):
            if any(known() is x and then == _version(x) for x in now):
                return self._passes == 0
        self._passes = 0
        self._prompts = [[(weakref.ref(x), _version(x)) for x in now], *self._prompts[: _PROMPTS - 1]]
        return True


def _digest(parts: Iterable[Tensor], device: torch.device) -> Tensor:
    """Of all of them, [] int64 on the device."""
    parts = list(parts)
    if any(part.device != device for part in parts):  # offloaded: where they are
        return torch.tensor(digests_on_host(parts), device=device).sum()
    return digest(digests(parts).to(device))


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers by name; those that accelerate keeps elsewhere from there."""
    for path, module in model.named_modules():
        hook = module.__dict__.get("_hf_hook")
        elsewhere = getattr(hook, "weights_map", None) or {}
        for name, x in (*module._parameters.items(), *module._buffers.items()):
            if x is not None:
                found = elsewhere[name] if x.is_meta and name in elsewhere else x
                yield f"{path}.{name}" if path else name, found


def _there(model: nn.Module) -> list[Tensor]:
    """Parameters and buffers, without their names, which take most of the time."""
    return [
        x
        for module in every_module(model)
        for own in (module._parameters, module._buffers)
        for x in own.values()
        if x is not None
    ]


def _version(x: Any) -> int:
    """How often it was written to, as far as torch counts that."""
    return 0 if not isinstance(x, Tensor) or x.is_inference() else x._version
