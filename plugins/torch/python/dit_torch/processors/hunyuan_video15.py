"""HunyuanVideo 1.5: HunyuanVideo15Transformer3DModel, of text- and image-to-video.

Video and text tokens are split where the blocks begin, in this order. Positions are those of the video, and
text tokens stay as they are. The text's mask is not split; of diffusers' mask, which is of the square of the
sequence, only the keys are taken: queries that are masked are keys of nobody.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..entries import Gather, Plan, Split
from .base import Processor
from .family import Family
from .flux import hooks_on
from .joint import JointProjections, norms_of
from .planned import check


class HunyuanVideo15Processor(Processor):
    """In place of HunyuanVideo15AttnProcessor2_0. `image_rotary_emb` is what our hook of rope made."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        image_rotary_emb: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        if encoder_hidden_states is None or image_rotary_emb is None:
            raise ValueError("encoder_hidden_states or image_rotary_emb is None: expected both")
        o = self.attention(
            JointProjections(attn, hidden_states, encoder_hidden_states, image_first=True),
            norms_of(attn, True),
            self.joint_tables(*image_rotary_emb),
            None if attention_mask is None else self.joint_mask(attention_mask),
            image_first=True,
        )
        rows = hidden_states.shape[1]
        video = attn.to_out[1](attn.to_out[0](o[:, :rows].contiguous()))
        return video, attn.to_add_out(o[:, rows:].contiguous())

    def joint_tables(self, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor]:
        """Of all tokens, from the video's: text tokens are not turned."""
        shape = (self.parallel.tokens["text"], cosine.shape[1])
        return torch.cat([cosine, cosine.new_ones(shape)]), torch.cat([sine, sine.new_zeros(shape)])

    def joint_mask(self, text: Tensor) -> Tensor:
        """Of all tokens, [batch, 1, 1, tokens], from the text's, [batch, text]: video tokens are all seen."""
        video = text.new_ones((text.shape[0], self.parallel.tokens["image"]), dtype=torch.bool)
        return torch.cat([video, text.bool()], dim=1)[:, None, None, :]


def _plan(transformer: nn.Module) -> Plan:
    return (
        Split("transformer_blocks.0", "hidden_states", 1, 3, "image"),
        Split("transformer_blocks.0", "encoder_hidden_states", 1, 3, "text"),
        Gather("proj_out", 1),
    )


FAMILY = Family(
    model="HunyuanVideo15Transformer3DModel",
    processors={
        "HunyuanVideo15AttnProcessor2_0": HunyuanVideo15Processor,
        "AttnProcessor2_0": None,  # of the refiner of texts, which all ranks have whole
        "AttnProcessor": None,
    },
    plan=_plan,
    hooks=hooks_on("rope"),
    branches=2,
    check=check,
    splits_samples=False,
)
