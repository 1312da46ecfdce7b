"""enable_vae() and disable_vae(): a diffusers VAE whose tiles are computed by all ranks."""

from __future__ import annotations

import functools
import inspect
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .asked import is_positive
from .digest import described, digests_on_host
from .given import tensors_of
from .group import Group, give, take
from .parallel import NotCopied
from .patch import Patch
from .tiles import answered, compute, tiles_of
from .training import wants_gradient
from .weights import Weights

_STATE = "_dit_torch_vae"  # attribute of an enabled VAE
# Those whose tiled_decode() and tiled_encode() call their decoder and encoder for one tile after the other.
SUPPORTED = (
    "AutoencoderDC",
    "AutoencoderKL",
    "AutoencoderKLCogVideoX",
    "AutoencoderKLFlux2",
    "AutoencoderKLHunyuanImage",
    "AutoencoderKLHunyuanVideo",
    "AutoencoderKLHunyuanVideo15",
    "AutoencoderKLKVAE",
    "AutoencoderKLLTX2Video",
    "AutoencoderKLLTXVideo",
    "AutoencoderKLMagvit",
    "AutoencoderKLMochi",
    "AutoencoderKLQwenImage",
    "AutoencoderKLQwenImage21",
    "AutoencoderKLWan",
)


@dataclass
class _Enabled(NotCopied):
    """What disable_vae() needs."""

    group: Group
    handles: list[Patch]
    tiling: dict[str, Any]  # as it was


def enable_vae(
    vae: nn.Module,
    group: dist.ProcessGroup | None = None,
    *,
    timeout_seconds: float = 300.0,
    compare: bool = True,
    **tiling: Any,
) -> nn.Module:
    """Shares a diffusers VAE's tiles between the ranks of a group. Collective. Every rank calls decode() and
    encode() (or the pipeline that the VAE is in) with the same tensors and gets the same, whole result, which
    is the one of diffusers' own tiling in one process. Tiling is turned on: what fits one tile is computed by
    each rank for itself.

    :param group: of torch.distributed; None: all ranks
    :param timeout_seconds: a rank that does not come for so long is named in an error
    :param compare: ranks compare their weights now, and in each call the bits of what they are given
    :param tiling: what the class's enable_tiling() takes, or other attributes of the VAE that say how large
        tiles are, as tile_sample_min_height
    :return: the VAE
    """
    with ExitStack() as undo:
        seconds = timeout_seconds if is_positive(timeout_seconds) else 300.0  # until all know that
        ranks = take(group, seconds)
        undo.callback(give, ranks)
        before = ranks.together(lambda: _checked(vae, timeout_seconds, tiling))
        undo.callback(vars(vae).update, before)
        ranks.together(lambda: _turn_on(vae, tiling))
        ranks.agree(
            {"vae": type(vae).__name__, "compare": bool(compare), "timeout_seconds": float(timeout_seconds)}
            | {f"vae.{name}": value for name, value in _tiling_of(vae).items()}
        )
        if compare:
            Weights(vae, "VAE").compare(ranks)
        handles = [
            Patch(vae, name, _Shared(vae, name, ranks, bool(compare))) for name in ("decode", "encode")
        ]
        setattr(vae, _STATE, _Enabled(ranks, handles, before))
        undo.pop_all()
    return vae


def disable_vae(vae: nn.Module) -> nn.Module:
    """Gives back the VAE that enable_vae() was given, with the tiling that it had. Collective."""
    this = getattr(vae, _STATE, None)
    if not isinstance(this, _Enabled):
        raise ValueError(
            f"vae: {type(vae).__name__} is not enabled; expected one that was given to dit_torch.enable_vae()"
        )
    for handle in reversed(this.handles):
        handle.remove()
    delattr(vae, _STATE)
    vars(vae).update(this.tiling)
    give(this.group)
    return vae


def _checked(vae: Any, timeout: Any, tiling: dict[str, Any]) -> dict[str, Any]:
    """Raises where it is wrong. The tiling that there is."""
    if not isinstance(vae, nn.Module):
        raise TypeError(f"vae is of class {type(vae).__name__}: expected a pipeline's VAE, such as pipe.vae")
    if not any(cls.__name__ in SUPPORTED for cls in type(vae).__mro__):
        raise ValueError(f"vae: {type(vae).__name__} is not supported; expected {', '.join(SUPPORTED)}")
    if isinstance(getattr(vae, _STATE, None), _Enabled):
        raise ValueError("vae: enabled already; expected dit_torch.disable_vae(vae) before")
    if not is_positive(timeout):
        raise ValueError(f"timeout_seconds = {timeout!r}: expected a number greater than 0")
    if any(getattr(module, "per_channel_scale1", None) is not None for module in vae.modules()):
        raise ValueError(
            f"vae: this {type(vae).__name__} adds noise to what it decodes (decoder_inject_noise): ranks "
            "would draw other numbers than one process does; expected a VAE without"
        )
    known = _tiling_of(vae)
    for name, value in tiling.items():
        if name not in known and name not in _taken(vae):
            raise TypeError(
                f"{name} = {value!r}: {type(vae).__name__} has no such tiling; expected "
                f"{', '.join(name for name in known if name.startswith('tile_'))}"
            )
    return known


def _tiling_of(vae: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(vae).items() if name.startswith(("use_", "tile_"))}


def _taken(vae: Any) -> set[str]:
    return set(inspect.signature(vae.enable_tiling).parameters)


def _turn_on(vae: Any, tiling: dict[str, Any]) -> None:
    taken = _taken(vae)
    vae.enable_tiling(**{name: value for name, value in tiling.items() if name in taken})
    for name, value in tiling.items():
        if name not in taken:
            setattr(vae, name, value)


class _Shared:
    """decode() or encode() of one VAE."""

    def __init__(self, vae: Any, name: str, group: Group, compare: bool) -> None:
        self.vae, self.name, self.group, self.compare = vae, name, group, compare
        self.original = getattr(vae, name)
        functools.update_wrapper(self, self.original)

    @torch.compiler.disable
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.group.size == 1:
            return self.original(*args, **kwargs)
        if self.group.failed:
            self.group.recover()
        try:
            return self._call(args, kwargs)
        except BaseException as error:
            self.group.fail(error)
            raise

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with torch.no_grad():
            tiles = tiles_of(self.vae, self.original, args, kwargs)
        if self.compare:
            self.group.agree(self._facts(args, kwargs) | {f"{self.name}: tiles": len(tiles)})
        if len(tiles) < 2:
            return self.original(*args, **kwargs)
        with torch.no_grad():
            results = compute(self.vae, tiles, self.group)
        if torch.is_grad_enabled() and any(
            map(wants_gradient, (*args, *kwargs.values(), *self.vae.parameters()))
        ):
            results = [_NoBackward.apply(x, torch.empty(0, requires_grad=True)) for x in results]
        return answered(self.vae, results, self.original, args, kwargs)

    def _facts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, object]:
        """What it was given."""
        given = tensors_of({f"argument {at}": x for at, x in enumerate(args, 1)} | kwargs)
        bits = digests_on_host(list(given.values()))
        return {
            f"{self.name}: {name}": f"{described(x)}, digest {one & (2**64 - 1):016x}"
            for (name, x), one in zip(given.items(), bits, strict=True)
        }


class _NoBackward(torch.autograd.Function):
    """A tile that other ranks may have computed: no gradient comes to them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor) -> Tensor:
        return x.clone()  # an own tensor: it is blended in place

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError(
            "a backward pass came to an enabled VAE, whose tiles have none: expected torch.no_grad() around "
            "it; to train, dit_torch.disable_vae(vae) before"
        )
