"""FLUX.3: Flux3Transformer2DModel.

Text, image and, where there is one, a condition's image tokens first attend among themselves, then all
together. Norms are not rounded before Q and K are turned. An exchange knows two streams: where there is a
condition the last blocks' Q and K are turned before they leave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from ..attention_calls import Seam
from ..entries import Attention, Gather, Plan, Split
from ..exchange import ROPE_INTERLEAVED
from ..plan import split
from ..reference import turned
from .base import Processor, Turned
from .family import Family
from .flux import hooks_on, refuse_mask
from .joint import JointProjections, norms_of
from .planned import check

_ALL = "text+image+condition"


class Flux3Processor(Processor):
    """In place of Flux3AttnProcessor. `image_rotary_emb` is what our hook of pos_embed made: half tables."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.together = self.where.startswith("single_")
        self.seam = Seam(*given[:2], Attention(self.where, _ALL), self.where)

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        image_rotary_emb: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        refuse_mask(attention_mask)
        if image_rotary_emb is None:
            raise ValueError("image_rotary_emb is None: expected the positions of all tokens")
        projections = JointProjections(attn, hidden_states, None, fused=attn.fused_projections)
        norms = norms_of(attn, False)._replace(rounded=False)
        if not self.together:  # by number, not by name: blocks of all three share a graph
            alone = image_rotary_emb[0].shape[0]
            o = self.attention(projections, norms, image_rotary_emb, text=None, image=alone)
        elif self.parallel.tokens.get("condition") == 0:
            o = self.attention(projections, norms, image_rotary_emb)
        else:
            o = self._three_streams(Turned(projections, norms, self._turn(image_rotary_emb)))
        return attn.to_out[1](attn.to_out[0](o))

    def _turn(self, tables: tuple[Tensor, Tensor]) -> Callable[[Tensor], Tensor]:
        own = split(tables, Split("", "image_rotary_emb", 0, 2, of=_ALL), self.parallel)
        cosine, sine = (table[None, :, None, :] for table in own)
        return lambda x: turned(x.float(), cosine, sine, ROPE_INTERLEAVED).to(x.dtype)

    def _three_streams(self, projections: Turned) -> Tensor:
        def kernel(q: Tensor, k: Tensor, v: Tensor, mask: Any, is_causal: bool, gqa: bool) -> Tensor:
            return self._attend(q, k, v, mask)

        self.seam.calls = 0
        q, k, v = projections.query(), projections.key(), projections.value()
        return self.seam.attend(q, k, v, None, False, False, kernel).flatten(2, 3)


def _plan(transformer: nn.Module) -> Plan:
    return (
        Split("", "hidden_states", 1, 3, "image"),
        Split("", "encoder_hidden_states", 1, 3, "text"),
        Split("", "image_cond_hidden_states", 1, 3, "condition"),
        Gather("proj_out", 1),
    )


FAMILY = Family(
    model="Flux3Transformer2DModel",
    processors={"Flux3AttnProcessor": Flux3Processor},
    plan=_plan,
    hooks=hooks_on("pos_embed"),
    check=check,
    splits_samples=False,
)
