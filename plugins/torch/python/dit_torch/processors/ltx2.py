"""LTX-2: LTX2VideoTransformer3DModel, whose video and audio tokens attend to themselves, to each other and to
a text, which stays whole.

Norms of Q and K take all heads of a token together, and each head turns by angles of its own. Tables are
split where they are made, once for all blocks. Gates of the output are computed while Q, K and V travel.
Where video and audio attend to each other Q and K are normed and turned before they leave, by diffusers'
functions; where video attends to audio, which has few tokens, every rank gets all of the audio's, and those
of the video stay.
"""

from __future__ import annotations

from typing import Any

import torch
from diffusers.models.transformers import transformer_ltx2
from torch import Tensor, nn

from ..entries import Gather, Plan, Split
from ..exchange import KEY, QUERY, ROPE_HALVES, ROPE_INTERLEAVED, VALUE
from ..heads import own_mask
from ..layout import Layout
from ..parallel import Parallel
from ..plan import gather
from ..symbol import may_vary
from .base import Norms, Processor, Projections, heads
from .family import Family, Removable
from .planned import check

Tables = tuple[Tensor, Tensor]

# A block's module -> of which tokens its queries are, and its keys; None: of the text.
_STREAMS = {
    "attn1": ("image", "image"),
    "audio_attn1": ("audio", "audio"),
    "attn2": ("image", None),
    "audio_attn2": ("audio", None),
    "audio_to_video_attn": ("image", "audio"),
    "video_to_audio_attn": ("audio", "image"),
}
_TURNS = {
    "interleaved": transformer_ltx2.apply_interleaved_rotary_emb,
    "split": transformer_ltx2.apply_split_rotary_emb,
}
_ROPES = {"interleaved": ROPE_INTERLEAVED, "split": ROPE_HALVES}


class LTX2Projections(Projections):
    """Of a module.

    :param others: what keys and values are of
    """

    def __init__(self, attn: Any, x: Tensor, others: Tensor) -> None:
        self.attn, self.x, self.others = attn, x, others
        self.values = self.gates = x  # until `value` and `beside`

    def query(self) -> Tensor:
        return heads(self.attn.to_q(self.x), self.attn.head_dim)

    def key(self) -> Tensor:
        return heads(self.attn.to_k(self.others), self.attn.head_dim)

    def value(self) -> Tensor:
        self.values = self.attn.to_v(self.others)
        return heads(self.values, self.attn.head_dim)

    def beside(self) -> None:
        if self.attn.to_gate_logits is not None:
            self.gates = 2.0 * torch.sigmoid(self.attn.to_gate_logits(self.x))

    def gated(self, o: Tensor) -> Tensor:
        if self.attn.to_gate_logits is None:
            return o
        return (heads(o, self.attn.head_dim) * self.gates.unsqueeze(-1)).flatten(2)


class Turned(LTX2Projections):
    """Normed, and turned by tables of this rank's tokens, as diffusers has them."""

    def __init__(self, attn: Any, x: Tensor, others: Tensor, of_q: Tables | None, of_k: Tables | None):
        super().__init__(attn, x, others)
        self.of_q, self.of_k = of_q, of_k

    def query(self) -> Tensor:
        return self._turned(self.attn.norm_q, self.attn.to_q(self.x), self.of_q)

    def key(self) -> Tensor:
        return self._turned(self.attn.norm_k, self.attn.to_k(self.others), self.of_k)

    def _turned(self, norm: Any, x: Tensor, tables: Tables | None) -> Tensor:
        y = norm(x).to(x.dtype)
        if tables is not None and x.shape[1] > 0:  # theirs takes no empty tensor
            y = _TURNS[self.attn.rope_type](y, tables)
        return heads(y, self.attn.head_dim)


class LTX2Processor(Processor):
    """In place of LTX2AudioVideoAttnProcessor and LTX2PerturbedAttnProcessor."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.queries, self.keys = _STREAMS[self.where.rsplit(".", 1)[-1]]

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
        if (self.queries != self.keys) == (encoder_hidden_states is None):
            raise ValueError(f"{self.where}: encoder_hidden_states is None; expected what it attends to")
        if self.keys is None:
            given = (encoder_hidden_states, attention_mask, query_rotary_emb, key_rotary_emb)
            return self.original(attn, hidden_states, *given)
        if encoder_hidden_states is None:
            projections = LTX2Projections(attn, hidden_states, hidden_states)
        else:
            tables = (query_rotary_emb, query_rotary_emb if key_rotary_emb is None else key_rotary_emb)
            projections = Turned(attn, hidden_states, encoder_hidden_states, *tables)
        if all_perturbed is None:
            all_perturbed = perturbation_mask is not None and bool((perturbation_mask == 0).all())
        if all_perturbed:
            o = projections.value().flatten(2)
            projections.beside()
        else:
            o = self._attended(attn, projections, query_rotary_emb, attention_mask)
            if perturbation_mask is not None:
                o = torch.lerp(projections.values, o, perturbation_mask)
        return attn.to_out[1](attn.to_out[0](projections.gated(o)))

    def _attended(
        self, attn: Any, projections: LTX2Projections, rope: Tables | None, mask: Tensor | None
    ) -> Tensor:
        def kernel(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
            if mask is not None:
                layouts = (self._layout(attn, stream) for stream in (self.queries, self.keys))
                mask, _ = own_mask(mask, False, *layouts, self.parallel.group.rank, q, self.where)
            return self._attend(q, k, v, mask)

        if mask is not None:  # [batch, queries, keys], or of each head
            mask = mask.view(projections.x.shape[0], -1, *mask.shape[1:])
        if (self.queries, self.keys) == ("image", "audio") and mask is None:
            return self._to_all(projections)
        if self.queries != self.keys:
            return self._across(projections, kernel, mask)
        norms = Norms(attn.norm_q, attn.norm_k, all_heads=True, rope=_ROPES[attn.rope_type])
        return self.attention(projections, norms, rope, mask, kernel, text=None, image=self.queries)

    def _to_all(self, projections: LTX2Projections) -> Tensor:
        """To other tokens, of which every rank gets all."""
        both = torch.stack((projections.key(), projections.value()))
        k, v = gather(both, 2, self.parallel.tokens[self.keys], self.parallel).unbind()
        q = projections.query()
        projections.beside()
        return self._attend(q, k, v, None).flatten(2)

    def _across(self, projections: LTX2Projections, kernel: Any, mask: Tensor | None) -> Tensor:
        """To other tokens, which travel by an exchange of their own."""
        layer, v = self.parallel.layer(self.layer), projections.value()
        others = self.parallel.joint(v, text=None, image=self.keys)
        value = others.start(VALUE, v, layer)
        key = others.start(KEY, projections.key(), layer, after=value.token)
        q = projections.query()
        exchange = self.parallel.joint(q, text=None, image=self.queries, has_value=False)
        query = exchange.start(QUERY, q, layer, after=key.token)
        projections.beside()
        v, k = (others.finish(one, layer, query.token) for one in (value, key))
        return exchange.gather(kernel(exchange.finish(query, layer), k, v, mask), layer).flatten(2)

    def _layout(self, attn: Any, stream: Any) -> Layout:
        return Layout(1, 0, self.parallel.tokens[stream], attn.heads, attn.heads, 1, self.parallel.group.size)


def _hooks(transformer: Any, parallel: Parallel) -> list[Removable]:
    def own_angles(module: Any, args: Any, output: Tables) -> Tables:
        """As the exchange takes them, for attention to oneself: of this rank's tokens, of each head."""
        if module.rope_type == "split":
            by_head = [table.transpose(1, 2) for table in output]
        else:  # each number twice
            by_head = [table[..., ::2].unflatten(-1, (module.num_attention_heads, -1)) for table in output]
        place = parallel.place(by_head[0].shape[1])
        own = (table.narrow(1, *place).float() for table in by_head)
        cosine, sine = (may_vary(x.clone(memory_format=torch.contiguous_format), 1) for x in own)
        return cosine, sine

    return [one.register_forward_hook(own_angles) for one in (transformer.rope, transformer.audio_rope)]


def _plan(transformer: nn.Module) -> Plan:
    tables = {"cross_attn_rope": "image", "cross_attn_audio_rope": "audio"}
    return (
        Split("", "hidden_states", 1, 3, "image"),
        Split("", "audio_hidden_states", 1, 3, "audio"),
        Split("", "timestep", 1, 2, of="image"),
        Split("", "audio_timestep", 1, 2, of="audio"),
        Split("", "video_keyframes_mask", 1, 3, of="image", optional=True),
        *(
            Split(module, table, dim, dims, of=stream)
            for module, stream in tables.items()
            for table in (0, 1)
            for dim, dims in ((1, 3), (2, 4))  # the same for all heads, or not
        ),
        Gather("proj_out", 1),
        Gather("audio_proj_out", 1, stream="audio"),
    )


FAMILY = Family(
    model="LTX2VideoTransformer3DModel",
    processors={"LTX2AudioVideoAttnProcessor": LTX2Processor, "LTX2PerturbedAttnProcessor": LTX2Processor},
    plan=_plan,
    hooks=_hooks,
    check=check,
    splits_samples=False,
)
