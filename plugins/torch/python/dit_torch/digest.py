"""What a tensor holds, bit for bit, in 64 bits: for ranks that compare what they have."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ._library import library

_PLAIN = (Tensor, torch.nn.Parameter)
_PIECE = 1 << 20  # words that are digested at once: what is computed on the way is no larger
# Odd, as multiplying by them loses nothing; of 64 bits, as torch's signed integers have them.
_PLACE, _FIRST, _SECOND = (
    n - (1 << 64) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def digests(tensors: Sequence[Tensor]) -> Tensor:
    """One for each, [n] int64, where they are (all on one device): equal where all bits are, and else
    different but by chance. Strides make no difference, nor does the device. The host waits for nothing."""
    if not tensors:
        return torch.zeros(0, dtype=torch.int64)
    plain = list(tensors)
    with torch.no_grad():
        if any(map(Tensor.is_conj, plain)) or any(map(Tensor.is_neg, plain)):
            plain = [x.resolve_conj().resolve_neg() for x in plain]
        if library() is not None:
            return torch.ops.dit.digests(plain)
        return torch.stack([_digest(_words(x)) for x in plain])


def digest(x: Tensor) -> Tensor:
    """Of one, [] int64."""
    return digests([x])[0]


def digests_on_host(tensors: Sequence[Tensor]) -> list[int]:
    """Of tensors on any devices. The host waits for them."""
    found: dict[int, int] = {}
    for device in {x.device for x in tensors}:
        here = [at for at, x in enumerate(tensors) if x.device == device]
        found |= zip(here, digests([tensors[at] for at in here]).tolist(), strict=True)
    return [found[at] for at in range(len(tensors))]


def word(text: str) -> int:
    """The same of a text, on the host."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def has_bits(x: Tensor) -> bool:
    """Whether there is something to digest: not of what is elsewhere ("meta"), or laid out in another way."""
    return not x.is_meta and x.layout == torch.strided


def plain_parts(x: Tensor) -> Iterator[Tensor]:
    """The tensors of which one of a class of its own is made, as quantised ones are; itself, if it is plain.
    None of a tensor of which each rank has another part, as it should."""
    if type(x) in _PLAIN:
        if has_bits(x):
            yield x
        return
    if type(x).__name__ in ("DTensor", "FlatParameter") or hasattr(x, "_local_tensor"):
        return
    if is_traceable_wrapper_subclass(x):
        for name in x.__tensor_flatten__()[0]:
            yield from plain_parts(getattr(x, name))
    elif has_bits(x):
        yield x


def described(x: Tensor) -> str:
    """What can be told of it without its bits."""
    kind = "" if type(x) in _PLAIN else f" ({type(x).__name__})"
    return f"{'x'.join(map(str, x.shape)) or 'one number'} of {str(x.dtype).removeprefix('torch.')}{kind}"


def _words(x: Tensor) -> Tensor:
    """Its bytes, in order, as [n] int64; zeros fill up the last."""
    x = x.contiguous().view(-1).view(torch.uint8)
    rest = -x.numel() % 8
    if rest != 0 or x.storage_offset() % 8 != 0:
        x = torch.cat((x, x.new_zeros(rest)))
    return x.view(torch.int64)


def _digest(words: Tensor) -> Tensor:
    """Each word is mixed with its place, and all are added: as the library does it (src/digest_word.hpp)."""
    total = words.new_zeros(())
    for start in range(0, words.numel(), _PIECE):
        piece = words[start : start + _PIECE]
        x = torch.arange(start + 1, start + 1 + piece.numel(), device=words.device).mul_(_PLACE).add_(piece)
        x = _folded(_folded(x, 30).mul_(_FIRST), 27).mul_(_SECOND)
        total = total + _folded(x, 31).sum()
    return total


def _folded(x: Tensor, by: int) -> Tensor:
    """Its high bits over its low ones. A shift to the right brings the sign along."""
    return x.bitwise_xor_((x >> by).bitwise_and_((1 << (64 - by)) - 1))
