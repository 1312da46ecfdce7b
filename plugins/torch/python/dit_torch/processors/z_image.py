"""Z-Image: ZImageTransformer2DModel, also of the omni pipelines.

The refiners and the main layers each get one sequence of tokens, which is split from the first of them to
the last. Positions are of a sample: where there is one, its table goes along with the exchange; samples of a
batch may have texts of other length, so their Q and K are turned before they leave.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn

from ..entries import Gather, Plan, Split
from .base import Norms, Processor, Projections, Turned
from .family import Family
from .joint import JointProjections, norms_of
from .planned import check


class ZImageProcessor(Processor):
    """In place of ZSingleStreamAttnProcessor. `freqs_cis` is of all tokens."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        freqs_cis: Tensor | None = None,
    ) -> Tensor:
        if freqs_cis is None:
            raise ValueError("freqs_cis is None: expected the positions of all tokens")
        if attention_mask is not None and attention_mask.dim() == 2:
            attention_mask = attention_mask[:, None, None, :]
        projections: Projections = JointProjections(attn, hidden_states, None)
        norms, rope = norms_of(attn, False), None
        if freqs_cis.shape[0] == 1:
            turns = torch.view_as_real(freqs_cis[0]).float()
            rope = (turns[..., 0].contiguous(), turns[..., 1].contiguous())
        else:
            turns = freqs_cis.narrow(1, *self.parallel.place(self.parallel.tokens["image"]))[:, :, None]
            projections = Turned(projections, norms, functools.partial(_turned, turns=turns))
            norms = Norms(None, None)
        o = self.attention(projections, norms, rope, attention_mask, text=None)
        o = attn.to_out[0](o)
        return attn.to_out[1](o) if len(attn.to_out) > 1 else o


def _turned(x: Tensor, turns: Tensor) -> Tensor:
    """:param turns: complex numbers of this rank's tokens, [batch, rows, 1, head_dim / 2]"""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turns).flatten(3).to(x.dtype)


def _plan(transformer: nn.Module) -> Plan:
    lists = ["noise_refiner", "context_refiner", "layers"]
    if getattr(transformer, "siglip_refiner", None) is not None:
        lists.append("siglip_refiner")
    entries: list[Split | Gather] = []
    for name in lists:
        entries += [
            Split(f"{name}.0", "x", 1, 3, "image"),
            Split(f"{name}.*", "noise_mask", 1, 2, of="image", optional=True),
        ]
        if name != "layers":
            entries.append(Gather(f"{name}.-1", 1))
    return (
        *entries,
        Split("", "controlnet_block_samples", 1, 3, optional=True),
        Split("all_final_layer.*", "noise_mask", 1, 2, of="image", optional=True),
        Gather("all_final_layer.*", 1),
    )


FAMILY = Family(
    model="ZImageTransformer2DModel",
    processors={"ZSingleStreamAttnProcessor": ZImageProcessor},
    plan=_plan,
    check=check,
    splits_samples=False,
)
