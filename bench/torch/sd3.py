"""SD3 and SD3.5 over several ranks, with Q, K and V packed in one exchange: the best that can be had from NCCL
for a model that diffusers and cache-dit have no plan for. Ranks may have different numbers of tokens."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from peers import all_to_all
from torch import Tensor, nn


def _parts(tokens: int, ranks: int) -> list[int]:
    return [tokens // ranks + (rank < tokens % ranks) for rank in range(ranks)]


class PackedProcessor:
    """diffusers' JointAttnProcessor2_0 for one attention per block, with an exchange around the kernel."""

    def __init__(self, exchange: bool) -> None:
        self.exchange = exchange
        self.ranks = dist.get_world_size()
        self.rank = dist.get_rank()
        self.group = dist.group.WORLD
        self.tokens: list[int] = []  # of each rank, image and text

    def _scatter(self, qkv: list[Tensor]) -> list[Tensor]:
        batch, tokens, heads, width = qkv[0].shape
        own = heads // self.ranks
        packed = torch.stack([x.reshape(batch, tokens, self.ranks, own, width) for x in qkv], dim=3)
        packed = packed.permute(2, 1, 0, 3, 4, 5).reshape(self.ranks * tokens, batch, 3, own, width)
        packed = all_to_all(packed, self.group, self.tokens, [tokens] * self.ranks)
        return [packed[:, :, i].transpose(0, 1) for i in range(3)]

    def _gather(self, out: Tensor) -> Tensor:
        tokens = self.tokens[self.rank]
        out = all_to_all(out.transpose(0, 1).contiguous(), self.group, [tokens] * self.ranks, self.tokens)
        out = out.unflatten(0, (self.ranks, tokens))
        return out.permute(2, 1, 0, 3, 4).flatten(2, 3)

    def __call__(self, attn: Any, hidden_states: Tensor, encoder_hidden_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        def heads(x: Tensor) -> Tensor:
            return x.unflatten(-1, (attn.heads, -1))

        image, text = hidden_states, encoder_hidden_states
        q = torch.cat([attn.norm_q(heads(attn.to_q(image))), attn.norm_added_q(heads(attn.add_q_proj(text)))], dim=1)
        k = torch.cat([attn.norm_k(heads(attn.to_k(image))), attn.norm_added_k(heads(attn.add_k_proj(text)))], dim=1)
        v = torch.cat([heads(attn.to_v(image)), heads(attn.add_v_proj(text))], dim=1)
        shape = q.shape
        if self.exchange:
            q, k, v = self._scatter([q, k, v])
        else:
            whole = (shape[0], shape[2] // self.ranks, shape[1] * self.ranks, shape[3])
            q, k, v = (x.reshape(whole).transpose(1, 2) for x in (q, k, v))
        out = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)))
        out = (self._gather(out.transpose(1, 2)) if self.exchange else out.reshape(shape)).flatten(2)
        image_out, text_out = out.split([image.shape[1], text.shape[1]], dim=1)
        if not attn.context_pre_only:
            text_out = attn.to_add_out(text_out)
        return attn.to_out[0](image_out), text_out


def parallelize(model: nn.Module, exchange: bool) -> nn.Module:
    """Splits image and text tokens behind their embeddings, and gathers what `proj_out` gives."""
    processor = PackedProcessor(exchange)
    ranks, rank = processor.ranks, processor.rank
    lengths: dict[str, list[int]] = {}

    def split(name: str) -> Any:
        def hook(_: nn.Module, __: Any, output: Tensor) -> Tensor:
            lengths[name] = _parts(output.shape[1], ranks)
            processor.tokens = [sum(both) for both in zip(*lengths.values(), strict=True)]
            return output.split(lengths[name], dim=1)[rank].contiguous()

        return hook

    def gather(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        parts = [output.new_empty(output.shape[0], tokens, output.shape[2]) for tokens in lengths["image"]]
        dist.all_gather(parts, output.contiguous())
        return torch.cat(parts, dim=1)

    model.pos_embed.register_forward_hook(split("image"))  # type: ignore[union-attr,operator]
    model.context_embedder.register_forward_hook(split("text"))  # type: ignore[union-attr,operator]
    model.proj_out.register_forward_hook(gather)  # type: ignore[union-attr,operator]
    model.set_attn_processor(processor)  # type: ignore[operator]
    return model
