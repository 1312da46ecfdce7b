"""Krea 2: Krea2Transformer2DModel.

Blocks get one sequence of text and image tokens. Heads of Q share one of K and V, and only these travel;
their norm adds 1 to its weight. What gates the output is computed while Q and K travel. The text's own
blocks have no positions: every rank computes them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..entries import Gather, Plan, Split
from ..heads import shared_heads
from ..layout import Layout
from .base import Processor
from .family import Family
from .flux import hooks_on
from .joint import JointProjections, norms_of
from .planned import check


class GatedProjections(JointProjections):
    def __init__(self, attn: Any, x: Tensor) -> None:
        super().__init__(attn, x, None)
        self.gate = x  # until `beside`

    def beside(self) -> None:
        self.gate = torch.sigmoid(self.attn.to_gate(self.image))


class Krea2Processor(Processor):
    """In place of Krea2AttnProcessor. `image_rotary_emb` is what our hook of rotary_emb made."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        image_rotary_emb: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        if image_rotary_emb is None:
            return self.original(attn, hidden_states, attention_mask)
        layout = Layout(1, 0, 1, attn.num_heads, attn.num_kv_heads, 1, self.parallel.group.size)

        def kernel(q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Tensor:
            # As diffusers does: few kernels of attention take a mask and fewer heads of K and V.
            k, v, shared = shared_heads(k, v, layout, self.parallel.group.rank, False)
            if shared:
                k, v = (x.repeat_interleave(q.shape[2] // k.shape[2], dim=2) for x in (k, v))
            return self._attend(q, k, v, mask)

        projections = GatedProjections(attn, hidden_states)
        norms, heads = norms_of(attn, False), attn.num_heads
        o = self.attention(
            projections, norms, image_rotary_emb, attention_mask, kernel, text=None, heads=heads
        )
        return attn.to_out[0](o * projections.gate)


def _plan(transformer: nn.Module) -> Plan:
    return (
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Gather("transformer_blocks.-1", 1),
    )


FAMILY = Family(
    model="Krea2Transformer2DModel",
    processors={"Krea2AttnProcessor": Krea2Processor},
    plan=_plan,
    hooks=hooks_on("rotary_emb"),
    check=check,
    splits_samples=False,
)
