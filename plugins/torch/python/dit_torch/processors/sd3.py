"""Stable Diffusion 3 and 3.5: SD3Transformer2DModel.

Diffusers has no plan for it; this one splits text tokens at the input, and image tokens once they have their
positions. Their order in attention is image, text. Blocks of SD3.5-medium have a second attention, of image
tokens alone. Any head count goes on any number of ranks.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..entries import Gather, Plan, Split
from .base import Processor
from .family import Family
from .flux import refuse_mask
from .joint import JointProjections, norms_of


class SD3Processor(Processor):
    """In place of JointAttnProcessor2_0, of both attentions."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor | tuple[Tensor, Tensor]:
        refuse_mask(attention_mask)
        text = encoder_hidden_states
        o = self.attention(
            JointProjections(attn, hidden_states, text, image_first=True),
            norms_of(attn, text is not None),
            text=None if text is None else "text",
            image_first=True,
        )
        rows = hidden_states.shape[1]
        image = attn.to_out[1](attn.to_out[0](o[:, :rows]))
        if text is None:
            return image
        of_text = o[:, rows:]
        return image, of_text if attn.context_pre_only else attn.to_add_out(of_text)


def _plan(transformer: Any) -> Plan:
    return (
        Split("pos_embed", 0, 1, 3, "image"),
        Split("", "encoder_hidden_states", 1, 3, "text"),
        Split("", "block_controlnet_hidden_states", 1, 3),
        Gather("proj_out", 1),
    )


FAMILY = Family(
    model="SD3Transformer2DModel",
    processors={"JointAttnProcessor2_0": SD3Processor},
    plan=_plan,
)
