"""Exchanges of an enabled transformer by shape: made when a shape is first seen, kept until disable()."""

from __future__ import annotations

import torch

from . import reference
from .exchange import Exchange, make_reference
from .group import Group
from .layout import Layout

_DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


class Exchanges:
    """Making one is collective: all ranks see the same shapes in the same order."""

    def __init__(self, group: Group, policy: str = "exact") -> None:
        self.group = group
        self.policy = policy
        self.made: dict[str, Exchange] = {}

    @property
    def exact(self) -> bool:
        return self.policy == "exact"

    def get(
        self,
        batch: int,
        text: int,
        image: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        image_first: bool,
        text_replicated: bool,
        dtype: torch.dtype,
        device: torch.device,
        unit: int,
    ) -> Exchange:
        if dtype not in _DTYPES:
            raise TypeError(f"dtype = {dtype}: expected float32, bfloat16 or float16 in attention")
        order = ("image-text" if image_first else "text-image") + ("-replicated" if text_replicated else "")
        name = (
            f"{self.group.name}/b{batch}.t{text}.i{image}.h{heads}.k{kv_heads}.d{head_dim}."
            f"{order}.{_DTYPES[dtype]}.{device.type}.u{unit}"
        )
        if name not in self.made:
            layout = Layout(
                batch,
                text,
                image,
                heads,
                kv_heads,
                head_dim,
                self.group.size,
                image_first,
                text_replicated,
            )
            self.made[name] = make_reference(name, layout, self.group.rank, self.group.process_group)
        return self.made[name]

    def close(self) -> None:
        """Collective."""
        for name in self.made:
            reference.free_exchange(name)
        self.made.clear()
