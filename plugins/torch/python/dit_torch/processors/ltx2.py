"""LTX-2: LTX2VideoTransformer3DModel, whose video and audio tokens attend to themselves, to each other and to
a text.

Video tokens are split. Every rank has all of the audio's, which are few: a hundredth of the video's; so the
audio attends to itself, and the video to the audio, by diffusers' processors, and nothing travels. Where
audio attends to video each rank attends to its part of the video. Norms of Q and K take all heads of a token
together, and each head turns by angles of its own. Tables are split where they are made, once for all blocks.
"""

from __future__ import annotations

from typing import Any

import torch
from diffusers.models.transformers import transformer_ltx2
from torch import Tensor, nn

from ..entries import Gather, Plan, Split
from ..exchange import ROPE_HALVES, ROPE_INTERLEAVED
from ..heads import own_mask
from ..layout import Layout
from ..parallel import Parallel
from ..split_keys import attend_to_parts
from ..symbol import may_vary
from .base import Norms, Processor, heads
from .family import Family, Removable
from .joint import JointProjections
from .planned import check

Tables = tuple[Tensor, Tensor]

_TURNS = {
    "interleaved": transformer_ltx2.apply_interleaved_rotary_emb,
    "split": transformer_ltx2.apply_split_rotary_emb,
}
_ROPES = {"interleaved": ROPE_INTERLEAVED, "split": ROPE_HALVES}


class LTX2Projections(JointProjections):
    """With gates of the output, which are computed while Q, K and V travel."""

    def __init__(self, attn: Any, x: Tensor) -> None:
        super().__init__(attn, x, None)
        self.gates: Tensor | None = None

    def value(self) -> Tensor:
        self.values = super().value()
        return self.values

    def beside(self) -> None:
        self.gates = _gates(self.attn, self.image)


class LTX2Processor(Processor):
    """In place of LTX2AudioVideoAttnProcessor and LTX2PerturbedAttnProcessor: video attends to itself."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        query_rotary_emb: Tables | None = None,
        key_rotary_emb: Tables | None = None,
        perturbation_mask: Tensor | None = None,
        all_perturbed: Tensor | bool | None = None,
    ) -> Tensor:
        if encoder_hidden_states is not None:
            raise ValueError(f"{self.where}: encoder_hidden_states is given; expected None")
        projections = LTX2Projections(attn, hidden_states)
        if all_perturbed is None:
            all_perturbed = perturbation_mask is not None and bool((perturbation_mask == 0).all())
        if all_perturbed:
            o = projections.value().flatten(2)
            projections.beside()
        else:
            o = self._attended(attn, projections, query_rotary_emb, attention_mask)
            if perturbation_mask is not None:
                o = torch.lerp(projections.values.flatten(2), o, perturbation_mask)
        return _output(attn, o, projections.gates)

    def _attended(
        self, attn: Any, projections: LTX2Projections, rope: Tables | None, mask: Tensor | None
    ) -> Tensor:
        layout = Layout(
            1, 0, self.parallel.tokens["image"], attn.heads, attn.heads, 1, self.parallel.group.size
        )

        def kernel(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
            if mask is not None:
                mask, _ = own_mask(mask, False, layout, layout, self.parallel.group.rank, q, self.where)
            return self._attend(q, k, v, mask)

        if mask is not None:  # [batch, queries, keys], or of each head
            mask = mask.view(projections.image.shape[0], -1, *mask.shape[1:])
        if rope is not None:  # samples may share their places
            cosine, sine = (x.expand(projections.image.shape[0], -1, -1, -1) for x in rope)
            rope = cosine, sine
        norms = Norms(attn.norm_q, attn.norm_k, all_heads=True, rope=_ROPES[attn.rope_type])
        return self.attention(projections, norms, rope, mask, kernel, text=None)


class LTX2AudioProcessor(Processor):
    """In place of these: audio attends to video. Tables of keys are those of this rank's tokens."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        query_rotary_emb: Tables | None = None,
        key_rotary_emb: Tables | None = None,
        **perturbed: Any,
    ) -> Tensor:
        if attention_mask is not None:
            raise ValueError(f"{self.where}: attention_mask is given; expected None")
        q = self._turned(attn, attn.norm_q(attn.to_q(hidden_states)), query_rotary_emb)
        k = self._turned(attn, attn.norm_k(attn.to_k(encoder_hidden_states)), key_rotary_emb)
        v = heads(attn.to_v(encoder_hidden_states), attn.head_dim)
        o = attend_to_parts(q.to(v.dtype), k.to(v.dtype), v, self.parallel.tokens["image"], self.parallel)
        return _output(attn, o.flatten(2), _gates(attn, hidden_states))

    def _turned(self, attn: Any, x: Tensor, tables: Tables | None) -> Tensor:
        return heads(x if tables is None else _TURNS[attn.rope_type](x, tables), attn.head_dim)


def _gates(attn: Any, x: Tensor) -> Tensor | None:
    return None if attn.to_gate_logits is None else 2.0 * torch.sigmoid(attn.to_gate_logits(x))


def _output(attn: Any, o: Tensor, gates: Tensor | None) -> Tensor:
    if gates is not None:
        o = (heads(o, attn.head_dim) * gates.unsqueeze(-1)).flatten(2)
    return attn.to_out[1](attn.to_out[0](o))


def _processor(parallel: Parallel, layer: int, original: Any, where: str) -> Any:
    block, name = where.split(".")[-2:]
    make = {"attn1": LTX2Processor, "video_to_audio_attn": LTX2AudioProcessor}.get(name)
    return original if make is None else make(parallel, int(block), original, where)


def _hooks(transformer: Any, parallel: Parallel) -> list[Removable]:
    def own_angles(module: Any, args: Any, output: Tables) -> Tables:
        """As the exchange takes them: of this rank's tokens, of each head."""
        if module.rope_type == "split":
            by_head = [table.transpose(1, 2) for table in output]
        else:  # each number twice
            by_head = [table[..., ::2].unflatten(-1, (module.num_attention_heads, -1)) for table in output]
        place = parallel.place(by_head[0].shape[1])
        own = (table.narrow(1, *place).float() for table in by_head)
        cosine, sine = (may_vary(x.clone(memory_format=torch.contiguous_format), 1) for x in own)
        return cosine, sine

    return [transformer.rope.register_forward_hook(own_angles)]


def _plan(transformer: nn.Module) -> Plan:
    return (
        Split("", "hidden_states", 1, 3, "image", least=1),
        Split("", "timestep", 1, 2, of="image"),
        Split("", "video_keyframes_mask", 1, 3, of="image", optional=True),
        Split("", "encoder_attention_mask", 1, 3, of="image"),  # of each token of the video
        *(
            Split("cross_attn_rope", table, dim, dims, of="image")
            for table in (0, 1)
            for dim, dims in ((1, 3), (2, 4))  # the same for all heads, or not
        ),
        Gather("proj_out", 1),
        # Each rank's part, as ranks' kernels may round differently: the next pass has to be given the same.
        Split("audio_proj_out", 0, 1, 3, "audio"),
        Gather("audio_proj_out", 1, stream="audio"),
    )


FAMILY = Family(
    model="LTX2VideoTransformer3DModel",
    processors={"LTX2AudioVideoAttnProcessor": _processor, "LTX2PerturbedAttnProcessor": _processor},
    plan=_plan,
    hooks=_hooks,
    check=check,
    layers=lambda transformer: len(transformer.transformer_blocks),
)
