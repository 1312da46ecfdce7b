"""FLUX.2 (dev, Klein): Flux2Transformer2DModel.

Double-stream blocks are FLUX.1's. A single-stream block has one projection for Q, K, V and the MLP: its rows
are taken apart, V, then Q and K, then the MLP while they travel. Where the layer is not a plain Linear (LoRA,
quantised weights) it is left whole, and V leaves with Q and K.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ..entries import Gather, Plan, Split
from .base import Processor, heads
from .beside_mlp import BesideMlp, is_plain
from .family import Family
from .flux import hooks_on, refuse_mask
from .joint import JointProjections, norms_of


class Flux2Processor(Processor):
    """In place of Flux2AttnProcessor: double-stream blocks."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        image_rotary_emb: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        refuse_mask(attention_mask)
        text = encoder_hidden_states if attn.added_kv_proj_dim is not None else None
        projections = JointProjections(attn, hidden_states, text, fused=attn.fused_projections)
        o = self.attention(projections, norms_of(attn, text is not None), image_rotary_emb)
        if encoder_hidden_states is None:
            return attn.to_out[1](attn.to_out[0](o))
        rows = encoder_hidden_states.shape[1]
        return attn.to_out[1](attn.to_out[0](o[:, rows:])), attn.to_add_out(o[:, :rows])


class PackedProjections(BesideMlp):
    """Of a single-stream block: rows of to_qkv_mlp_proj are Q, K, V, then the MLP's gate and hidden layer."""

    def __init__(self, attn: Any, x: Tensor) -> None:
        self.attn, self.x = attn, x
        self.packed: Tensor | None = None if is_plain(attn.to_qkv_mlp_proj) else attn.to_qkv_mlp_proj(x)
        self.query_key: Tensor | None = None
        self.linear = attn.to_out

    def _rows(self, begin: int, end: int | None) -> Tensor:
        if self.packed is not None:
            return self.packed[..., begin:end]
        linear = self.attn.to_qkv_mlp_proj
        bias = None if linear.bias is None else linear.bias[begin:end]
        return F.linear(self.x, linear.weight[begin:end], bias)

    def _half(self, number: int) -> Tensor:
        if self.query_key is None:
            self.query_key = self._rows(0, 2 * self.attn.inner_dim)
        return heads(self.query_key.chunk(2, dim=-1)[number], self.attn.head_dim)

    def query(self) -> Tensor:
        return self._half(0)

    def key(self) -> Tensor:
        return self._half(1)

    def value(self) -> Tensor:
        size = self.attn.inner_dim
        return heads(self._rows(2 * size, 3 * size), self.attn.head_dim)

    def beside(self) -> None:
        self.mlp = self.attn.mlp_act_fn(self._rows(3 * self.attn.inner_dim, None))


class Flux2SingleProcessor(Processor):
    """In place of Flux2ParallelSelfAttnProcessor: single-stream blocks."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        image_rotary_emb: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        refuse_mask(attention_mask)
        projections = PackedProjections(attn, hidden_states)
        return projections.output(self.attention(projections, norms_of(attn, False), image_rotary_emb))


def _plan(transformer: nn.Module) -> Plan:
    return (
        Split("", "hidden_states", 1, 3, "image"),
        Split("", "encoder_hidden_states", 1, 3, "text"),
        Gather("proj_out", 1),
    )


FAMILY = Family(
    model="Flux2Transformer2DModel",
    processors={
        "Flux2AttnProcessor": Flux2Processor,
        "Flux2ParallelSelfAttnProcessor": Flux2SingleProcessor,
    },
    plan=_plan,
    hooks=hooks_on("pos_embed"),
)
