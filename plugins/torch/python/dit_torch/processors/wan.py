"""Wan 2.1 and 2.2: WanTransformer3DModel, text-to-video and image-to-video.

Video tokens are split, the text is not: cross-attention, to the text and to the image that a video starts
from, needs no exchange and stays diffusers' own. Timesteps of Wan 2.2-5B are per token, and split with them.
RMSNorm of Q and K takes all heads of a token together, so it is applied before they leave.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ..entries import Gather, Plan, Split
from ..parallel import Parallel
from .base import Norms, Processor, half_table
from .family import Family, Removable
from .joint import JointProjections


class WanProcessor(Processor):
    """In place of WanAttnProcessor. `rotary_emb` is what our hook of rope made."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        rotary_emb: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        if encoder_hidden_states is not None:
            return self.original(attn, hidden_states, encoder_hidden_states, attention_mask, rotary_emb)
        fused = getattr(attn, "fused_projections", False)
        o = self.attention(
            JointProjections(attn, hidden_states, None, fused=fused),
            Norms(attn.norm_q, attn.norm_k, all_heads=True),
            rotary_emb,
            attention_mask,
            text=None,
        )
        return attn.to_out[1](attn.to_out[0](o))


def token_tables(module: nn.Module, args: Any, output: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Forward hook of rope: [1, tokens, 1, head_dim] -> the tables that the exchange takes."""
    cosine, sine = (table[0, :, 0] for table in output)
    return half_table(cosine), half_table(sine)


def tokens_in_a_row(module: nn.Module, args: Any, output: Tensor) -> Tensor:
    """Forward hook of patch_embedding: [batch, channels, frames, height, width] -> [batch, channels, tokens],
    which the model would do next. The plan splits them after that, so that all blocks are alike."""
    return output.flatten(2)


def _hooks(transformer: Any, parallel: Parallel) -> list[Removable]:
    return [
        transformer.rope.register_forward_hook(token_tables),
        transformer.patch_embedding.register_forward_hook(tokens_in_a_row),
    ]


def _plan(transformer: Any) -> Plan:
    return (
        Split("", "timestep", 1, 2, one_for_all=True),
        Split("patch_embedding", 0, 2, 3, "image"),
        Gather("proj_out", 1),
    )


FAMILY = Family(
    model="WanTransformer3DModel",
    processors={"WanAttnProcessor": WanProcessor},
    plan=_plan,
    hooks=_hooks,
    branches=2,
)
