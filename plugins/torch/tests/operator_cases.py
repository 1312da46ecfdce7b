"""Exchanges to check the operators with, made directly through the library's set-up functions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dit_torch import _library
from dit_torch.group import Group

QUERY, KEY, VALUE, OUTPUT = range(4)


class Case(NamedTuple):
    """An attention shape."""

    batch: int
    text: int
    image: int
    heads: int
    kv_heads: int
    head_dim: int
    flags: int = 0

    @property
    def tokens(self) -> int:
        return self.text + self.image


CASES = (
    Case(1, 8, 32, 4, 4, 8),
    Case(2, 3, 17, 12, 12, 16),
    Case(2, 3, 11, 5, 5, 8, _library.TEXT_REPLICATED),
    Case(1, 0, 31, 38, 19, 8),
    Case(2, 5, 9, 3, 1, 8),
    Case(1, 4, 9, 7, 7, 32, _library.TEXT_REPLICATED | _library.IMAGE_FIRST),
)


def make(
    group: Group, name: str, case: Case, dtype: torch.dtype, device: torch.device, **more: object
) -> str:
    """Makes an exchange of this name on this kind of device. Collective."""
    attention = _library.Attention(
        batch=case.batch,
        text_tokens=case.text,
        image_tokens=case.image,
        heads=case.heads,
        kv_heads=case.kv_heads,
        head_dim=case.head_dim,
        flags=case.flags,
        element_type=_library.ELEMENT_TYPES[dtype],
        memory_kind=_library.MEMORY_KINDS[device.type],
        device=device.index or 0,
        **more,
    )
    assert group.library is not None, "libdit_torch.so was not found"
    group.library.make_exchange(name, group.name, attention)
    return name


def source(name: str, case: Case, what: int, seed: int, dtype: torch.dtype, rank: int) -> Tensor:
    """Numbers for `what` in the layout that it starts from, as the operators' own shapes say. On the host."""
    heads = case.kv_heads if what in (KEY, VALUE) else case.heads
    meta = torch.empty(0, 0, heads, case.head_dim, dtype=dtype, device="meta")
    if what == OUTPUT:
        sizes = torch.ops.dit.exchange(meta, name, QUERY, 0).shape
    else:
        # What is gathered has the shape of what is scattered; of keys the rows are the same.
        sizes = (*torch.ops.dit.gather(meta, name, 0).shape[:2], heads, case.head_dim)
    made = torch.Generator().manual_seed(1000 * seed + 10 * what + rank)
    return torch.randn(sizes, generator=made).to(dtype)


def preparation(case: Case, norm: int, rope: int, dtype: torch.dtype, heads: int) -> dict[str, object]:
    """Arguments of a start that normalises and turns a tensor, on the host."""
    made = torch.Generator().manual_seed(7)
    count = case.head_dim * (heads if norm == 2 else 1)
    angle = torch.arange(case.tokens)[:, None] / (1 + torch.arange(case.head_dim // 2)[None, :])
    how: dict[str, object] = {"norm": norm, "rope": rope, "epsilon": 1e-6, "round_norm": True}
    if norm:
        how["weight"] = (1 + torch.randn(count, generator=made) / 4).to(dtype)
        if case.text:
            how["text_weight"] = (1 + torch.randn(count, generator=made) / 4).to(dtype)
    if rope:
        how["cosine"], how["sine"] = angle.cos().contiguous(), angle.sin().contiguous()
    return how


def with_own_angles(how: dict[str, object], x: Tensor) -> dict[str, object]:
    """The same with angles of each of x's numbers, whose heads lie before its rows."""
    batch, rows, heads, head_dim = x.shape
    made = torch.Generator().manual_seed(8)
    angle = 4 * torch.randn(batch, heads, rows, head_dim // 2, generator=made).transpose(1, 2)
    return how | {"cosine": angle.cos(), "sine": angle.sin()}


def moved(how: dict[str, object], device: torch.device) -> dict[str, object]:
    """The same with tensors elsewhere."""
    return {key: value.to(device) if isinstance(value, Tensor) else value for key, value in how.items()}
