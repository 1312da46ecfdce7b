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
from ._library import call
from .reference import OUTPUT, QUERY, Tables

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


@torch.library.custom_op(
    "dit_gradients::finish",
    mutates_args=(),
    schema="(Tensor token, Tensor x, str exchange, bool native, int what, SymInt layer, Tensor? after, "
    "Tensor? weight, Tensor? text_weight, Tensor? cosine, Tensor? sine, float epsilon, int norm, int rope, "
    "bool round_norm) -> Tensor",
)
def finish(
    token: Tensor,
    x: Tensor,
    exchange: str,
    native: bool,
    what: int,
    layer: int,
    after: Tensor | None,
    *prepared: Any,
) -> Tensor:
    """What arrived, of x."""
    if native:
        return call(torch.ops.dit.finish, exchange, token, exchange, what, layer, after)
    return torch.ops.dit_reference.finish(token, exchange, what, layer, after)


@finish.register_fake
def _(token: Tensor, x: Tensor, exchange: str, native: bool, what: int, *_: Any) -> Tensor:
    return token.new_empty(reference.target_shape(exchange, what))


@torch.library.custom_op(
    "dit_gradients::move_back",
    mutates_args=(),
    schema="(Tensor gradient, str exchange, bool native, int what) -> Tensor",
)
def move_back(gradient: Tensor, exchange: str, native: bool, what: int) -> Tensor:
    """The gradient of what was sent, from that of what arrived."""
    if not reference.is_there(exchange):
        raise RuntimeError(
            f"the exchange {exchange} of the forward pass is gone: expected backward() before passes of many "
            "other sizes, and before dit_torch.disable(transformer)"
        )
    if native and reference.is_permutation(exchange, what):
        there = QUERY if what == OUTPUT else OUTPUT
        arguments = (gradient.contiguous(), exchange, there, 0, *NO_ARGUMENTS)
        return call(torch.ops.dit.exchange, exchange, *arguments)
    return reference.move_back(gradient.contiguous(), exchange, what)


@move_back.register_fake
def _(gradient: Tensor, exchange: str, native: bool, what: int) -> Tensor:
    return gradient.new_empty(reference.source_shape(exchange, what))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, x, ctx.exchange, ctx.native, ctx.what, _, _, weight, text_weight, cosine, sine, *rest = inputs
    ctx.epsilon, ctx.norm, ctx.rope, _ = rest
    ctx.save_for_backward(x if ctx.norm != 0 else None, weight, text_weight, cosine, sine)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    x, weight, text_weight, cosine, sine = ctx.saved_tensors
    back = torch.ops.dit_gradients.move_back(gradient, ctx.exchange, ctx.native, ctx.what)
    of_weight = of_text = None
    if ctx.rope != 0:
        tables = Tables(cosine, sine, ctx.rope)
        back = reference.turned_back(back, ctx.exchange, tables)
    if ctx.norm != 0:
        of_text_tokens = weight if text_weight is None else text_weight
        split = reference.first_rows(ctx.exchange), reference.image_is_first(ctx.exchange)
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
    first, of_first = _norm_back(gradient[:, :rows], x[:, :rows], in_order[0], epsilon, norm)
    second, of_second = _norm_back(gradient[:, rows:], x[:, rows:], in_order[1], epsilon, norm)
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
