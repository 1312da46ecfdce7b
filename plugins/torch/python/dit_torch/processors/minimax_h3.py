"""MiniMax-H3: MiniMaxH3Transformer3DModel, of video, audio and text in one sequence.

It turns some of a head's numbers only, by tables that are rounded to the type of Q and K: by diffusers'
function, before they leave. The text's own blocks have no positions: every rank computes them.
"""

from __future__ import annotations

from typing import Any

from diffusers.models.transformers import transformer_minimax_h3
from torch import Tensor, nn

from ..entries import Gather, Plan, Split
from .base import Norms, Processor, Turned
from .family import Family
from .joint import JointProjections, norms_of
from .planned import check


class MiniMaxH3Processor(Processor):
    """In place of MiniMaxH3AttnProcessor. `rotary_emb` is of this rank's tokens."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        rotary_emb: tuple[Tensor, Tensor] | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        if rotary_emb is None:
            return self.original(attn, hidden_states, None, attention_mask)
        cosine, sine = rotary_emb

        def turn(x: Tensor) -> Tensor:
            return transformer_minimax_h3._apply_rotary_emb(x, cosine, sine)

        projections = JointProjections(attn, hidden_states, None, fused=attn.fused_projections)
        turned = Turned(projections, norms_of(attn, False), turn)
        o = self.attention(turned, Norms(None, None), None, attention_mask, text=None)
        return attn.to_out[1](attn.to_out[0](o))


def _plan(transformer: nn.Module) -> Plan:
    return (
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Split("transformer_blocks.*", "rotary_emb", 0, 2, of="image"),
        Split("transformer_blocks.*", "adaln_indices", 0, 1, of="image"),
        Gather("transformer_blocks.-1", 1),
    )


FAMILY = Family(
    model="MiniMaxH3Transformer3DModel",
    processors={"MiniMaxH3AttnProcessor": MiniMaxH3Processor},
    plan=_plan,
    check=check,
    splits_samples=False,
)
