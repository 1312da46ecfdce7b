"""Models that diffusers has a plan for and we have no processors for: diffusers' own processors, and its own
plan, with our exchange in the place of its own.

Their attention backends call `_templated_context_parallel_attention` of diffusers.models.attention_dispatch
when a processor has a `_parallel_config`. Ours is a Seam, and the function is replaced by one that knows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .. import plan as plans
from ..attention import attention_dispatch
from ..exchange import KEY, QUERY, VALUE
from ..layer_number import LayerNumber
from ..layout import heads_part, part_size
from ..parallel import Parallel
from ..patch import no_graph_alone, signature_of
from .family import Family, Removable, processors_of

# Classes whose attention is over image tokens alone, but for modules of that name: from these to text tokens.
_CROSS = {"LTXVideoTransformer3DModel": "attn2"}


class Seam:
    """The `_parallel_config` of a processor. Backends only hand it on.

    :param streams: of queries and of keys, where the module says so
    """

    def __init__(self, parallel: Parallel, layer: int, streams: tuple[str, str] | None) -> None:
        self.parallel = parallel
        self.layer = LayerNumber(layer)
        self.streams = streams
        self.no_keys = False  # this rank has none of the keys that there is a mask for

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, forward: Callable[..., Tensor]
    ) -> Tensor:
        """Attention over all ranks' tokens. `forward` is the backend's kernel."""
        if self.streams is None:
            of_query = streams_of(self.parallel, query.shape[1])
            of_key = streams_of(self.parallel, key.shape[1])
        else:
            of_query, of_key = (_ALONE[name] for name in self.streams)
        layer = self.parallel.layer(self.layer)
        across = of_query != of_key
        exchange = self.parallel.joint(query, kv_heads=key.shape[2], has_value=not across, **of_query)
        if not across:
            q, k, v = exchange.scatter_qkv(query, key, value, layer)
        else:
            others = self.parallel.joint(key, **of_key)
            under_way = others.start(VALUE, value, layer)
            of_k = others.start(KEY, key, layer, after=under_way.token)
            of_q = exchange.start(QUERY, query, layer, after=of_k.token)
            v, k = others.finish(under_way, layer), others.finish(of_k, layer)
            q = exchange.finish(of_q, layer)
        if self.no_keys:
            mask = query.new_zeros(query.shape[0], query.shape[2], 1, 0)
        if mask is not None:
            mask = self._whole_mask(mask, key.shape[1], of_key)
        return exchange.gather(forward(q, k, v, mask), layer)

    def _whole_mask(self, mask: Tensor, rows: int, streams: dict[str, Any]) -> Tensor:
        """Of all keys, in the order in which they arrive; of the heads of this rank."""
        if mask.shape[-1] == rows:
            names = [name for name in (streams["text"], streams["image"]) if name is not None]
            mask = plans.gather_all(mask, mask.dim() - 1, "+".join(names), self.parallel)
        if mask.dim() == 4 and mask.shape[1] > 1:
            own = heads_part(mask.shape[1], self.parallel.group.size, self.parallel.group.rank)
            mask = mask[:, own.start : own.stop]
        if mask.dim() == 4 and mask.shape[2] != 1:
            raise ValueError(
                f"attn_mask: shape {tuple(mask.shape)}, expected one mask for all queries, [..., 1, keys]"
            )
        return mask


# Arguments of Parallel.joint for attention over one stream.
_ALONE: dict[str, dict[str, Any]] = {
    "text": {"text": "text", "image": None},
    "image": {"text": None, "image": "image"},
}


def streams_of(parallel: Parallel, rows: int) -> dict[str, Any]:
    """Which of the split streams has so many tokens on this rank: arguments of Parallel.joint."""
    tokens, size, rank = parallel.tokens, parallel.group.size, parallel.group.rank
    options: list[tuple[str | None, str | None]] = [
        (name, None) if name == "text" else (None, name) for name in tokens
    ]
    if "text" in tokens and "image" in tokens:
        options.append(("text", "image"))

    def rows_on(option: tuple[str | None, str | None], rank: int) -> int:
        return sum(part_size(tokens[name], size, rank) for name in option if name is not None)

    fitting = [option for option in options if rows_on(option, rank) == rows]
    if not fitting:
        raise ValueError(
            f"attention over {rows} tokens of this rank: expected a part of the split inputs, {tokens} tokens"
        )
    # Decided alike on all ranks: what could be mistaken on any of them is refused on all.
    for one in options:
        for other in options:
            counts = [(rows_on(one, r), rows_on(other, r)) for r in range(size)]
            if any(a == b for a, b in counts) and any(a != b for a, b in counts):
                raise ValueError(
                    f"tokens = {tokens} on {size} ranks: expected counts that divide by the ranks, as some "
                    "rank cannot tell its parts apart"
                )
    return {"text": fitting[0][0], "image": fitting[0][1]}


class _Replaced:
    """The seam's function in diffusers, while any transformer needs it."""

    users = 0
    original: Callable[..., Any] | None = None

    def __init__(self) -> None:
        if _Replaced.users == 0:
            _Replaced.original = attention_dispatch._templated_context_parallel_attention
            attention_dispatch._templated_context_parallel_attention = _templated  # type: ignore[assignment]
        _Replaced.users += 1

    def remove(self) -> None:
        _Replaced.users -= 1
        if _Replaced.users == 0:
            attention_dispatch._templated_context_parallel_attention = _Replaced.original  # type: ignore[assignment]


def _templated(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    *,
    forward_op: Callable[..., Any],
    backward_op: Callable[..., Any],
    _parallel_config: Any = None,
) -> Any:
    """In place of diffusers' function of the same arguments."""
    if not isinstance(_parallel_config, Seam):
        assert _Replaced.original is not None
        given = (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, return_lse)
        return _Replaced.original(
            *given, forward_op=forward_op, backward_op=backward_op, _parallel_config=_parallel_config
        )
    if is_causal or return_lse:
        raise ValueError(f"is_causal = {is_causal}, return_lse = {return_lse}: expected neither")

    def forward(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        kernel = (mask, dropout_p, False, scale, enable_gqa, False)
        return forward_op(None, q, k, v, *kernel, _save_ctx=False, _parallel_config=None)

    return _parallel_config.attend(query, key, value, attn_mask, forward)


class _Config:
    """Our `_parallel_config` on one of diffusers' processors."""

    def __init__(self, processor: Any, seam: Seam) -> None:
        self.processor, self.before = processor, processor._parallel_config
        processor._parallel_config = seam

    def remove(self) -> None:
        self.processor._parallel_config = self.before


def _hooks(transformer: nn.Module, parallel: Parallel) -> list[Removable]:
    processors = processors_of(transformer)
    if (
        len({id(processor) for processor in processors.values()}) < len(processors)
        and not parallel.exchanges.exact
    ):
        raise ValueError(
            f"policy = {parallel.exchanges.policy!r}: expected 'exact', as attention modules of "
            f"{type(transformer).__name__} share a processor, which cannot tell layers apart"
        )
    cross = next((_CROSS[cls.__name__] for cls in type(transformer).__mro__ if cls.__name__ in _CROSS), None)
    check = _backend_check(processors, parallel)
    check()
    removable: list[Removable] = [_Replaced(), transformer.register_forward_pre_hook(check)]
    for layer, (name, processor) in enumerate(processors.items()):
        streams = None if cross is None else ("image", "text" if name.endswith(f".{cross}") else "image")
        seam = Seam(parallel, layer, streams)
        removable.append(_Config(processor, seam))
        module = transformer.get_submodule(name)
        if streams == ("image", "text"):
            removable.append(module.register_forward_pre_hook(_empty_mask(seam), with_kwargs=True))
        if getattr(module, "is_amplify_history", False):
            hook = _history(module, parallel)
            removable.append(module.register_forward_pre_hook(hook, with_kwargs=True, prepend=True))
    return removable


def _backend_check(processors: dict[str, Any], parallel: Parallel) -> Callable[..., None]:
    """A hook that raises where attention would be over this rank's tokens alone: not all of diffusers'
    attention backends look at a `_parallel_config`. A pass that is compiled asks as it is traced."""
    registry = getattr(attention_dispatch, "_AttentionBackendRegistry", None)
    is_parallel = getattr(registry, "_is_context_parallel_available", None)

    @torch._dynamo.assume_constant_result
    def backend_alone() -> str:
        for processor in processors.values() if parallel.size > 1 and is_parallel is not None else ():
            own = getattr(processor, "_attention_backend", None)
            backend = registry.get_active_backend()[0] if own is None else own  # type: ignore[union-attr]
            backend = attention_dispatch.AttentionBackendName(backend)
            if not is_parallel(backend):  # type: ignore[misc]
                return str(backend.value)
        return ""

    def check(*_: Any) -> None:
        name = backend_alone()
        if name:
            raise ValueError(
                f"attention backend {name!r}: diffusers cannot run it in parallel; expected another one, as "
                "'native' (DIFFUSERS_ATTN_BACKEND, or the transformer's set_attention_backend)"
            )

    return no_graph_alone(check)


def _empty_mask(seam: Seam) -> Callable[..., Any]:
    """LTX gives a mask the shape [batch, heads, -1, keys], which there is none of without keys."""

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple, dict]:
        mask = kwargs.get("attention_mask")
        seam.no_keys = mask is not None and mask.shape[-1] == 0
        return args, kwargs | {"attention_mask": None} if seam.no_keys else kwargs

    return hook


def _history(module: nn.Module, parallel: Parallel) -> Callable[..., Any]:
    """Helios amplifies the keys of its history, whose tokens come first: as many as are not of the
    `original_context_length`. Before the tokens are split, the hook makes that the one of this rank's."""
    positions = {name: at for at, name in enumerate(signature_of(module).parameters)}

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple, dict]:
        given = dict(zip(positions, args, strict=False)) | kwargs
        total, context = given["hidden_states"].shape[1], given["original_context_length"]
        start, count = parallel.place(total)
        mine = min(max(start + count - (total - context), 0), count)
        at = positions["original_context_length"]
        if at < len(args):
            return (*args[:at], mine, *args[at + 1 :]), kwargs
        return args, kwargs | {"original_context_length": mine}

    return hook


def family(transformer: nn.Module) -> Family | None:
    """For a model with a `_cp_plan`; else None."""
    if not getattr(transformer, "_cp_plan", None) or not hasattr(
        attention_dispatch, "_templated_context_parallel_attention"
    ):
        return None
    name = type(transformer).__name__
    processors = processors_of(transformer)
    if not processors:
        raise ValueError(
            f"transformer: {name} has no attention processors that diffusers could run in parallel; expected "
            "some with a _parallel_config"
        )
    for where, processor in processors.items():
        if not hasattr(processor, "_parallel_config"):
            raise ValueError(
                f"transformer: {name} has the attention processor {type(processor).__name__} at {where}, "
                "which diffusers cannot run in parallel; expected one with a _parallel_config"
            )
    return Family(
        model=name,
        processors={type(processor).__name__: None for processor in processors.values()},
        plan=plans.from_diffusers,
        hooks=_hooks,
        note=f"{name}: no processors of ours; diffusers' own, and its plan, with dit_torch's exchange, flat",
    )
