"""A VAE's tiles, computed by several ranks.

diffusers' tiled_decode() and tiled_encode() call the decoder (or encoder) for one tile after the other, and
blend what comes of it. Such a function runs twice here. The first time it computes nothing: what it calls the
decoder with is noted, and it goes on with tensors without values. Then each rank computes the tiles that fall
to it, and gets the others'. The second time its calls are answered with these. So tiles, their order and how
they are blended are diffusers' own, whatever the class, and so are the bits.

A tile may take several calls, one after the other, that remember something: frames of a clip.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .group import Group
from .patch import signature_of

_ENDS = ("encoder", "decoder")
_AFTER = "quant_conv"  # on what the encoder gave
_BLENDS = ("blend_v", "blend_h", "blend_t")
_CLEAR = "_clear_conv_cache"  # of a class whose layers themselves remember, until a tile is done
_ALIGNED = 64  # bytes; of any element type


class _Cache:
    """In the place of what a first call remembers for the next one: `conv_cache`."""

    def __init__(self, tile: Tile) -> None:
        self.tile = tile


@dataclass
class _Call:
    end: str  # "encoder" or "decoder"
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass
class Tile:
    calls: list[_Call] = field(default_factory=list)
    size: int = 0  # numbers that go in


def _returns_cache(module: nn.Module) -> bool:
    return "conv_cache" in signature_of(getattr(module, "_orig_mod", module)).parameters


class _Notes:
    """What a function of a VAE would call, in the order of its calls."""

    def __init__(self, vae: Any) -> None:
        self.remembers = hasattr(vae, _CLEAR)
        self.gives_cache = {end: _returns_cache(getattr(vae, end)) for end in _ENDS}
        self.tiles: list[Tile] = []
        self._open: Tile | None = None  # of layers that remember
        self._lists: dict[int, tuple[list[Any], Tile]] = {}  # `feat_cache` by its identity, which is kept

    def note(self, end: str, *args: Any, **kwargs: Any) -> Any:
        tile = self._tile(kwargs)
        x = args[0]
        tile.calls.append(_Call(end, args, kwargs))
        tile.size += x.numel()
        # Only that shapes fit each other matters: as many channels as can be taken apart, whatever the class.
        shape = (x.shape[0], 4 * x.shape[1], *x.shape[2:])
        nothing = torch.empty(shape, dtype=x.dtype, device="meta")
        return (nothing, _Cache(tile)) if self.gives_cache[end] else nothing

    def _tile(self, kwargs: dict[str, Any]) -> Tile:
        """The one that a call belongs to."""
        cache, memory = kwargs.get("conv_cache"), kwargs.get("feat_cache")
        if isinstance(cache, _Cache):
            return cache.tile
        if memory is not None and id(memory) in self._lists:
            return self._lists[id(memory)][1]
        if self._open is not None:
            return self._open
        tile = Tile()
        self.tiles.append(tile)
        if memory is not None:
            self._lists[id(memory)] = (memory, tile)
        if self.remembers:
            self._open = tile
        return tile

    def end_tile(self) -> None:
        self._open = None


@contextlib.contextmanager
def _shadowed(vae: nn.Module, **attributes: Any) -> Iterator[None]:
    """They are found first, before modules and methods of these names, which stay where they are."""
    own = vars(vae)
    before = {name: own[name] for name in attributes if name in own}
    own.update(attributes)
    try:
        yield
    finally:
        for name in attributes:
            del own[name]
        own.update(before)


class _InPlaceOf:
    """A module that is asked for all but its calls."""

    def __init__(self, module: nn.Module, called: Callable[..., Any]) -> None:
        self._module, self._called = module, called

    @torch.compiler.disable  # what is around it may be compiled
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._called(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def tiles_of(vae: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> list[Tile]:
    """What function(*args, **kwargs) would call the VAE's encoder and decoder with."""
    notes = _Notes(vae)
    found: dict[str, Any] = {
        end: _InPlaceOf(getattr(vae, end), functools.partial(notes.note, end)) for end in _ENDS
    }
    found |= {name: lambda a, b, *_: b for name in _BLENDS if hasattr(vae, name)}
    if hasattr(vae, _CLEAR):
        found[_CLEAR] = notes.end_tile
    after = getattr(vae, _AFTER, None)
    if after is not None:
        found[_AFTER] = lambda x: x if x.is_meta else after(x)
    with _shadowed(vae, **found):
        function(*args, **kwargs)
    return notes.tiles


def shares_of(tiles: list[Tile], ranks: int) -> list[int]:
    """Whose each tile is: the largest first, each to the rank that has the least so far."""
    load = [0] * ranks
    owners = [0] * len(tiles)
    for at in sorted(range(len(tiles)), key=lambda at: -tiles[at].size):
        owners[at] = load.index(min(load))
        load[owners[at]] += tiles[at].size
    return owners


def _computed(vae: Any, tile: Tile) -> list[Tensor]:
    """What its calls give. What they remember is let go."""
    clear = getattr(vae, _CLEAR, None)
    cache, given = None, []
    for number, call in enumerate(tile.calls):
        module = getattr(vae, call.end)
        if number == 0 and clear is not None:
            clear()
        if isinstance(call.kwargs.get("conv_cache"), _Cache):
            call.kwargs["conv_cache"] = cache
        result = module(*call.args, **call.kwargs)
        if isinstance(result, tuple):
            result, cache = result
        given.append(result)
    if clear is not None:
        clear()
    tile.calls.clear()
    return given


def compute(vae: Any, tiles: list[Tile], group: Group) -> list[Tensor]:
    """What all calls give, in their order, each computed by one of the ranks. Collective."""
    owners = shares_of(tiles, group.size)
    mine = [at for at, owner in enumerate(owners) if owner == group.rank]
    # A rank that cannot tells the others before they wait for what it has not.
    given = group.together(lambda: {at: _computed(vae, tiles[at]) for at in mine})
    return _shared(given, group, _device(tiles, given))


def _device(tiles: list[Tile], given: dict[int, list[Tensor]]) -> torch.device:
    """Where results are; of a rank that has no tile, where the tiles are."""
    results = [x for parts in given.values() for x in parts]
    return results[0].device if results else tiles[0].calls[0].args[0].device


def _room(shape: torch.Size, dtype: torch.dtype) -> int:
    count = math.prod(shape) * dtype.itemsize
    return count + -count % _ALIGNED


def _shared(given: dict[int, list[Tensor]], group: Group, device: torch.device) -> list[Tensor]:
    """All ranks' tensors by tile, one after the other. Collective."""
    every_kind = group.gather({at: [(x.shape, x.dtype) for x in parts] for at, parts in given.items()})
    rooms = [sum(_room(*one) for parts in kinds.values() for one in parts) for kinds in every_kind]
    own = torch.empty(max(rooms), dtype=torch.uint8, device=device)
    for (shape, dtype), part, x in zip(
        (one for kinds in every_kind[group.rank].values() for one in kinds),
        _parts(own, every_kind[group.rank]),
        (x for parts in given.values() for x in parts),
        strict=True,
    ):
        part.view(dtype).view(shape).copy_(x)
    given.clear()
    every = group.gather_tensors(own)
    found: dict[int, list[Tensor]] = {}
    for row, kinds in zip(every, every_kind, strict=True):
        parts = iter(_parts(row, kinds))
        for at, ones in kinds.items():
            found[at] = [next(parts).view(dtype).view(shape) for shape, dtype in ones]
    return [x for at in sorted(found) for x in found[at]]


def _parts(row: Tensor, kinds: dict[int, list[tuple[torch.Size, torch.dtype]]]) -> Iterator[Tensor]:
    """Of a rank's bytes, those of each tensor."""
    first = 0
    for shape, dtype in (one for ones in kinds.values() for one in ones):
        yield row[first : first + math.prod(shape) * dtype.itemsize]
        first += _room(shape, dtype)


def answered(
    vae: Any, results: list[Tensor], function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
) -> Any:
    """What function(*args, **kwargs) gives whose calls give these."""
    left = iter(results)

    def answer(end: str) -> _InPlaceOf:
        module = getattr(vae, end)
        if _returns_cache(module):
            return _InPlaceOf(module, lambda *_, **__: (next(left), None))
        return _InPlaceOf(module, lambda *_, **__: next(left))

    with _shadowed(vae, **{end: answer(end) for end in _ENDS}):
        result = function(*args, **kwargs)
    assert next(left, None) is None
    return result
