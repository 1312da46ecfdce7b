"""Weights and adapters that differ between ranks: enable() says so, or the pass behind the change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import dit_torch.digest
import ranks
import tiny
from dit_torch.digest import digest, digests, plain_parts
from tiny_models import TINY, installed

Change = Callable[[Any], Any]


def _told(call: Callable[[], Any]) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)
    return ""


def _adapter(model: Any, seed: int = 5, scale: float = 1.0, name: str = "default") -> None:
    peft = pytest.importorskip("peft")
    torch.manual_seed(seed)
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["to_q", "proj_out"], init_lora_weights=False)
    model.add_adapter(config, adapter_name=name)
    model.set_adapters([name], [scale])


def _weight(model: Any, name: str) -> Tensor:
    return model.get_submodule(name).weight


def _set(model: Any, name: str, at: int, number: float) -> None:
    with torch.no_grad():
        _weight(model, name).view(-1)[at] = number


def _buffer(model: Any, number: float) -> None:
    model.norm_out.register_buffer("shift", torch.tensor([number]))


class _Quantised(Tensor):
    """As torchao's: a tensor of tensors."""

    @staticmethod
    def __new__(cls, codes: Tensor, scale: Tensor) -> _Quantised:
        made = torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=scale.dtype, device=codes.device)
        made.codes, made.scale = codes, scale
        return made

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["codes", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: dict[str, Tensor], *_: Any) -> _Quantised:
        return cls(inner["codes"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls(args[0].codes, args[0].scale)
        plain = pytree.tree_map_only(
            _Quantised, lambda x: x.codes.to(x.dtype) * x.scale, (args, kwargs or {})
        )
        return func(*plain[0], **plain[1])


def _quantise(model: Any, code: int) -> None:
    linear = model.proj_out
    codes = (linear.weight.detach() * 64).round().to(torch.int8)
    codes[0, 0] = code
    linear.weight = nn.Parameter(_Quantised(codes, torch.tensor(1 / 64)), requires_grad=False)


# What rank 0 does, and the others; and the weight that is named.
DIFFERENT: dict[str, tuple[Change, Change, str]] = {
    "weight": (
        lambda m: None,
        lambda m: _set(m, "transformer_blocks.1.ff.net.2", 5, 0.123),
        "transformer_blocks.1.ff.net.2.weight",
    ),
    "minus": (
        lambda m: _set(m, "proj_out", 0, 0.0),
        lambda m: _set(m, "proj_out", 0, -0.0),
        "proj_out.weight",
    ),
    "type": (lambda m: None, lambda m: m.proj_out.to(torch.float64), "proj_out.weight"),
    "buffer": (lambda m: _buffer(m, 1.0), lambda m: _buffer(m, 1.5), "norm_out.shift"),
    "no buffer": (lambda m: _buffer(m, 1.0), lambda m: None, "norm_out.shift"),
    "quantised": (lambda m: _quantise(m, 3), lambda m: _quantise(m, 4), "proj_out.weight"),
    "adapter": (_adapter, lambda m: None, "transformer_blocks.0.attn.to_q"),
    "adapter's weights": (_adapter, lambda m: _adapter(m, seed=6), "to_q.lora_A.default.weight"),
    "scale": (_adapter, lambda m: _adapter(m, scale=0.3), "transformer_blocks.0.attn.to_q (its adapters)"),
}


def _enabled() -> dict[str, str]:
    told = {}
    for name, changes in DIFFERENT.items():
        model = tiny.flux(3)
        changes[min(dist.get_rank(), 1)](model)
        told[name] = _told(lambda model=model: dit_torch.enable(model))
    dit_torch.disable(dit_torch.enable(tiny.flux(3)))
    return told


@pytest.mark.parametrize("size", [2, 3])
def test_enable_names_what_differs(size: int) -> None:
    for told in ranks.run(size, _enabled):
        for name, (_, _, weight) in DIFFERENT.items():
            assert told[name].startswith("the transformer's ") and weight in told[name], (name, told[name])
            assert "differs between ranks 0 and 1" in told[name] and "expected the same" in told[name]


def _fresh() -> dict[str, Any]:
    """As a pipeline has them for each picture: other tensors, of the same numbers."""
    return {name: x.clone() for name, x in tiny.flux_inputs().items()}


def _fuse_and_forget(model: Any) -> None:
    """What is left of adapters is in the weights, and says nothing."""
    model.fuse_lora()
    model.unload_lora()
    _adapter(model)


def _write_to_data(model: Any) -> None:
    _weight(model, "transformer_blocks.1.ff.net.2").data.mul_(2)


def _hot_swap(model: Any, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for name, x in model.named_parameters():
        if "lora" in name:
            x.data.copy_(torch.randn(x.shape, generator=generator))


# With an adapter on all ranks, which then do this, and that.
LATER: dict[str, tuple[Change, Change]] = {
    "scaled": (lambda m: None, lambda m: m.set_adapters(["default"], [0.3])),
    "off": (lambda m: m.disable_adapters(), lambda m: None),
    "another": (lambda m: None, lambda m: _adapter(m, name="other")),
    "deleted": (lambda m: m.delete_adapters("default"), lambda m: None),
    "fused": (lambda m: m.fuse_lora(), lambda m: None),
    "fused otherwise": (lambda m: m.fuse_lora(), lambda m: m.fuse_lora(lora_scale=0.5)),
    "fused and gone": (lambda m: None, _fuse_and_forget),
    "through .data": (lambda m: None, _write_to_data),
    "other weights": (lambda m: _hot_swap(m, 1), lambda m: _hot_swap(m, 2)),
    "written to": (lambda m: None, lambda m: _set(m, "proj_out.base_layer", 0, 2.0)),
}


def _changed_later() -> dict[str, tuple[str, str]]:
    """Only then, and where all ranks do the same no pass says anything."""
    told = {}
    for name, changes in LATER.items():
        model = tiny.flux(3)
        _adapter(model)
        dit_torch.enable(model)
        with torch.no_grad():
            model(**_fresh())
            changes[min(dist.get_rank(), 1)](model)
            other = _told(lambda model=model: model(**_fresh()))
        dit_torch.disable(model)
        model = tiny.flux(3)
        _adapter(model)
        dit_torch.enable(model)
        with torch.no_grad():
            model(**_fresh())
            changes[1](model)
            told[name] = (other, _told(lambda model=model: model(**_fresh())))
        dit_torch.disable(model)
    return told


def test_changes_behind_enable_are_noticed() -> None:
    for told in ranks.run(2, _changed_later):
        for name, (other, alike) in told.items():
            assert other.startswith("the transformer's "), (name, other)
            assert "differs between ranks 0 and 1" in other, name
            assert alike == "", (name, alike)


def _of_one_prompt() -> list[str]:
    """Pictures of a prompt that the program has kept: nothing says where they begin."""
    model, given = tiny.flux(3), tiny.flux_inputs()
    _adapter(model)
    dit_torch.enable(model)
    told = []
    with torch.no_grad():
        model(**given)
        model.delete_adapters("default")
        _adapter(model, seed=6 + dist.get_rank())
        told.append(_told(lambda: model(**given)))
        model.delete_adapters("default")
        _adapter(model)
        if dist.get_rank() == 1:
            _write_to_data(model)
        told.append("".join(_told(lambda: model(**given)) for _ in range(16)))
    dit_torch.disable(model)
    return told


def test_changes_between_pictures_of_one_prompt() -> None:
    for adapter, data in ranks.run(2, _of_one_prompt):
        assert "lora_A.default.weight differs between ranks 0 and 1" in adapter
        assert "ff.net.2.weight differs between ranks 0 and 1" in data


def _written_to_later() -> tuple[str, str]:
    """Of a model whose prompts are lists."""
    entry = TINY["ZImageTransformer2DModel"]
    model = dit_torch.enable(entry.make())
    with torch.no_grad():
        model(**entry.inputs(1))
        _set(model, "layers.0.attention.to_q", 0, 1.0 + dist.get_rank())
        told = _told(lambda: model(**entry.inputs(1)))
        _set(model, "layers.0.attention.to_q", 0, 3.0)
        again = _told(lambda: model(**entry.inputs(1)))
    dit_torch.disable(model)
    return told, again


@pytest.mark.skipif("ZImageTransformer2DModel" not in installed(), reason="not in this diffusers")
def test_a_picture_begins_with_lists_of_prompts_too() -> None:
    for told, again in ranks.run(2, _written_to_later):
        assert "layers.0.attention.to_q.weight differs between ranks 0 and 1" in told
        assert again == ""


def _held_elsewhere() -> str:
    """Weights that accelerate keeps; those that ranks have in parts are each rank's own."""
    accelerate = pytest.importorskip("accelerate")
    model = tiny.flux(3)
    _set(model, "proj_out", 0, float(dist.get_rank()))
    return _told(lambda: dit_torch.enable(accelerate.cpu_offload(model, torch.device("cpu"))))


def test_weights_that_are_offloaded() -> None:
    for told in ranks.run(2, _held_elsewhere):
        assert "proj_out.weight differs between ranks 0 and 1" in told


def _parts_of_ranks() -> int:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (2,))
    return len(list(plain_parts(distribute_tensor(torch.arange(8.0), mesh, [Shard(0)]))))


def test_parts_that_ranks_have_of_a_tensor_are_their_own() -> None:
    assert ranks.run(2, _parts_of_ranks) == [0, 0]


def test_a_digest_is_of_all_bits_and_of_their_places() -> None:
    noise = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(1))
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.int8, torch.bool):
        x = (noise > 0) if dtype == torch.bool else noise.to(dtype)
        bits = x.contiguous().view(torch.uint8).clone()
        found = {int(digest(x))}
        for at in range(bits.numel()):
            one = bits.clone().view(-1)
            one[at] ^= 1 if dtype == torch.bool else 128
            found.add(int(digest(one.view(x.dtype))))
        assert len(found) == 1 + bits.numel(), dtype
    x = noise.flatten()
    assert digest(x) != digest(x.flip(0)) and digest(x[:64]) != digest(x[1:65])
    assert digest(noise.transpose(0, 2)) == digest(noise.transpose(0, 2).contiguous()) != digest(noise)
    signs = torch.zeros(64, dtype=torch.bfloat16)
    assert digest(signs) != digest(torch.where(torch.arange(64) % 4 == 3, -signs, signs))
    at = torch.arange(20)
    pairs = {
        int(digest(torch.where((at == a) | (at == b), -x[:20], x[:20]))) for a in range(20) for b in range(a)
    }
    assert len(pairs) == 190  # two signs do not make up for each other
    assert digest(torch.zeros(0)) == 0 != digest(torch.tensor(1.0))


def test_a_digest_is_the_same_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = torch.randn(70, 129, generator=torch.Generator().manual_seed(2))
    odd = [noise, noise.t(), noise[:, 1:], noise.bfloat16()[1:], noise.flatten()[:7], noise > 0, noise[0, 0]]
    tensors = [*odd, torch.zeros(0), noise.to(torch.complex64).conj(), torch.arange(3 << 20)]
    found = digests(tensors)
    monkeypatch.setattr(dit_torch.digest, "library", lambda: None)
    assert torch.equal(digests(tensors), found)


def test_pieces_of_long_tensors() -> None:
    x = torch.arange(5 << 20, dtype=torch.int32)
    other = x.clone()
    other[-1] += 1
    assert digest(x) == digest(x.clone()) and digest(x) != digest(other)
