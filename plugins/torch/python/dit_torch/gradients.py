"""The exchange in a backward pass.

It only moves numbers, so their gradients move back: where a number went to several ranks (keys of heads that
ranks share) as the sum of theirs. Norm and rotary embedding, which are applied on the way there, are taken
back by ordinary operators.

A rank has the gradients of what it computes itself. Of a parameter that is its tokens' part: see training.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import reference
from .reference import OUTPUT, QUERY, Tables
from .sized import arrived, exchange_of, layout_of, sent

NO_ARGUMENTS = (None, None, None, None, 0.0, 0, 0, False)  # of Prepare, in the operators' order


class Source(NamedTuple):
    """Of a started transfer: what its gradients are of."""

    x: Tensor
    prepared: tuple[Any, ...]  # Prepare.arguments()


def are_wanted(x: Tensor, prepared: tuple[Any, ...] = NO_ARGUMENTS) -> bool:
    """Whether gradients are, of what travels or of weights that are applied on the way."""
    if not torch.is_grad_enabled():
        return False
    weights = [weight for weight in (prepared[0], prepared[1]) if weight is not None]
    return x.requires_grad or any([weight.requires_grad for weight in weights])


def without(prepared: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same for the start, which has no gradient of its own: its finish has."""
    weight, text_weight, *rest = prepared
    return (
        None if weight is None else weight.detach(),
        None if text_weight is None else text_weight.detach(),
        *rest,
    )


_WHICH = "int[] kind, SymInt[] sizes"


@torch.library.custom_op(
    "dit_gradients::finish",
    mutates_args=(),
    schema=f"(Tensor token, Tensor x, {_WHICH}, int what, SymInt layer, Tensor? after, "
    "Tensor? weight, Tensor? text_weight, Tensor? cosine, Tensor? sine, float epsilon, int norm, int rope, "
    "bool round_norm) -> Tensor",
)
def finish(
    token: Tensor,
    x: Tensor,
    kind: list[int],
    sizes: list[int],
    what: int,
    layer: int,
    after: Tensor | None,
    *prepared: Any,
) -> Tensor:
    """What arrived, of x."""
    exchange = exchange_of(kind, sizes, x)
    return exchange.call("finish", token, exchange.name, what, layer, after)


@finish.register_fake
def _(token: Tensor, x: Tensor, kind: list[int], sizes: list[int], what: int, *_: Any) -> Tensor:
    return arrived(token, kind, sizes, what)


@torch.library.custom_op(
    "dit_gradients::move_back",
    mutates_args=(),
    schema=f"(Tensor gradient, {_WHICH}, int what) -> Tensor",
)
def move_back(gradient: Tensor, kind: list[int], sizes: list[int], what: int) -> Tensor:
    """The gradient of what was sent, from that of what arrived."""
    exchange = exchange_of(kind, sizes, gradient)
    if exchange.native and reference.is_permutation(layout_of(kind, sizes)[0], what):
        there = QUERY if what == OUTPUT else OUTPUT
        return exchange.call("exchange", gradient.contiguous(), exchange.name, there, 0, *NO_ARGUMENTS)
    return reference.move_back(gradient.contiguous(), exchange.name, what)


@move_back.register_fake
def _(gradient: Tensor, kind: list[int], sizes: list[int], what: int) -> Tensor:
    return sent(gradient, kind, sizes, what)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, x, ctx.kind, ctx.sizes, ctx.what, _, _, weight, text_weight, cosine, sine, *rest = inputs
    ctx.epsilon, ctx.norm, ctx.rope, _ = rest
    ctx.save_for_backward(x if ctx.norm != 0 else None, weight, text_weight, cosine, sine)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    x, weight, text_weight, cosine, sine = ctx.saved_tensors
    back = torch.ops.dit_gradients.move_back(gradient, ctx.kind, ctx.sizes, ctx.what)
    layout, rank = layout_of(ctx.kind, ctx.sizes)
    of_weight = of_text = None
    if ctx.rope != 0:
        back = reference.turned_back(back, layout, rank, Tables(cosine, sine, ctx.rope))
    if ctx.norm != 0:
        of_text_tokens = weight if text_weight is None else text_weight
        split = layout.sequence_places(rank)[0][1], layout.image_first
        back, of_weight, of_text = _norms_back(
            back, x, split, (weight, of_text_tokens), ctx.epsilon, ctx.norm
        )
        if text_weight is None and of_weight is not None:
            of_weight, of_text = of_weight + of_text, None
    return (None, back, *[None] * 5, of_weight, of_text, *[None] * 6)


def _norms_back(
    gradient: Tensor,
    x: Tensor,
    split: tuple[int, bool],
    weights: tuple[Tensor | None, Tensor | None],
    epsilon: float,
    norm: int,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Of x, of the image's weight and of the text's.

    :param split: how many rows come first, and whether they are the image's
    """
    rows, image_first = split
    in_order = weights if image_first else weights[::-1]
    places = (0, rows), (rows, x.shape[1] - rows)
    parts = [(gradient.narrow(1, *place), x.narrow(1, *place)) for place in places]
    first, of_first = _norm_back(*parts[0], in_order[0], epsilon, norm)
    second, of_second = _norm_back(*parts[1], in_order[1], epsilon, norm)
    back = torch.cat([first, second], dim=1)
    return (back, of_first, of_second) if image_first else (back, of_second, of_first)


def _norm_back(
    gradient: Tensor, x: Tensor, weight: Tensor | None, epsilon: float, norm: int
) -> tuple[Tensor, Tensor | None]:
    """y = x w / rms(x), over a head, or over all heads of a token."""
    dims = (-1,) if norm == 1 else (-2, -1)
    g, wide = gradient.float(), x.float()
    scale = torch.rsqrt(wide.pow(2).mean(dims, keepdim=True) + epsilon)
    of_weight = None
    if weight is not None:
        over = (0, 1, 2) if norm == 1 else (0, 1)
        of_weight = (g * wide * scale).sum(over).reshape(weight.shape).to(weight.dtype)
        g = g * weight.float().view(x.shape[2:] if norm == 2 else (-1,))
    back = scale * (g - wide * scale.pow(2) * (g * wide).mean(dims, keepdim=True))
    return back.to(gradient.dtype), of_weight


finish.register_autograd(_backward, setup_context=_keep)
