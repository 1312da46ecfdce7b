"""VAEs whose tiles several ranks compute give the bits of diffusers' own tiling in one process."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import dit_torch
import ranks
import tiny_vaes
from dit_torch.tiles import Tile, shares_of

_NAMES = [name for name, case in tiny_vaes.CASES.items() if case.there()]


@torch.no_grad()
def _results(vae: Any, case: tiny_vaes.Case) -> list[Tensor]:
    decoded = vae.decode(tiny_vaes.noise(case.latents)).sample
    encoded = vae.encode(tiny_vaes.noise(case.samples).clamp(-1, 1))
    return [decoded, encoded.latent_dist.parameters if hasattr(encoded, "latent_dist") else encoded.latent]


def _alone(case: tiny_vaes.Case, slicing: bool = False) -> list[Tensor]:
    """Of diffusers' own tiling."""
    vae = case.make()
    vae.use_slicing = slicing
    taken = inspect.signature(vae.enable_tiling).parameters
    vae.enable_tiling(**{name: value for name, value in case.tiling.items() if name in taken})
    vars(vae).update({name: value for name, value in case.tiling.items() if name not in taken})
    return _results(vae, case)


@contextlib.contextmanager
def _counted(*modules: nn.Module) -> Iterator[list[int]]:
    """How often they are called."""
    counts = [0] * len(modules)

    def count(at: int) -> Any:
        def hook(*_: Any) -> None:
            counts[at] += 1

        return hook

    handles = [module.register_forward_hook(count(at)) for at, module in enumerate(modules)]
    yield counts
    for handle in handles:
        handle.remove()


def _compare(right: dict[str, list[Tensor]]) -> dict[str, tuple[bool, list[int]]]:
    """By name: whether the results are these, and how often this rank has called decoder and encoder."""
    told = {}
    for name, alone in right.items():
        case = tiny_vaes.CASES[name]
        vae = case.make()
        dit_torch.enable_vae(vae, **case.tiling)
        with _counted(vae.decoder, vae.encoder) as counts:
            shared = _results(vae, case)
        dit_torch.disable_vae(vae)
        told[name] = all(torch.equal(x, y) for x, y in zip(shared, alone, strict=True)), counts
    return told


@pytest.mark.parametrize("size", [2, 3])
def test_the_bits_are_those_of_one_process(size: int) -> None:
    every = ranks.run(size, _compare, {name: _alone(tiny_vaes.CASES[name]) for name in _NAMES})
    for name in _NAMES:
        told = [one[name] for one in every]
        assert all(right for right, _ in told), (name, told)
        assert max(counts[0] for _, counts in told) < sum(counts[0] for _, counts in told), (name, told)


def _there_and_back() -> list[bool]:
    """Twice, without tiles, in slices, and what disable_vae() gives back."""
    case = tiny_vaes.CASES["kl"]
    vae, small = case.make(), tiny_vaes.noise((1, 4, 8, 8))
    before, keys = _results(vae, case), list(vae.state_dict())
    with torch.no_grad():
        one = vae.decode(small).sample
    alone = _alone(case)
    dit_torch.enable_vae(vae, **case.tiling)
    told = [list(vae.state_dict()) == keys, vae.use_tiling]
    for _ in range(2):
        told += [torch.equal(x, y) for x, y in zip(_results(vae, case), alone, strict=True)]
    vae.enable_slicing()
    sliced = _alone(case, True)
    told += [torch.equal(x, y) for x, y in zip(_results(vae, case), sliced, strict=True)]
    with torch.no_grad(), _counted(vae.decoder) as counts:
        told += [torch.equal(vae.decode(small, return_dict=False)[0], one), counts == [1]]
        told.append(torch.equal(vae.decode(tiny_vaes.noise(case.latents), return_dict=False)[0], sliced[0]))
    dit_torch.disable_vae(vae)
    vae.disable_slicing()
    told += [torch.equal(x, y) for x, y in zip(_results(vae, case), before, strict=True)]
    return [*told, not vae.use_tiling, vae.tile_sample_min_size == 32]


def test_it_is_given_back() -> None:
    for told in ranks.run(2, _there_and_back):
        assert all(told), told


def _failures() -> dict[str, str]:
    """Errors of this rank, and whether what follows is right."""
    told = {}
    case = tiny_vaes.CASES["wan"]
    alone, vae = _alone(case), case.make()

    def tell(name: str, call: Any) -> None:
        try:
            call()
            told[name] = "nothing"
        except Exception as error:
            told[name] = f"{type(error).__name__}: {error}"

    tell("tiling", lambda: dit_torch.enable_vae(vae, tile_height=3))
    tell("differs", lambda: dit_torch.enable_vae(vae, tile_sample_min_height=64 + dist.get_rank()))
    told["off"] = str(vae.use_tiling)
    dit_torch.enable_vae(vae, **case.tiling)
    tell("twice", lambda: dit_torch.enable_vae(vae))
    tell("latents", lambda: vae.decode(tiny_vaes.noise(case.latents, seed=dist.get_rank())))
    if dist.get_rank() == 1:
        hook = vae.decoder.register_forward_pre_hook(_raise)
    tell("memory", lambda: _results(vae, case))
    if dist.get_rank() == 1:
        hook.remove()
    tell("gradients", lambda: vae.decode(tiny_vaes.noise(case.latents)).sample.sum().backward())
    told["right"] = str(all(torch.equal(x, y) for x, y in zip(_results(vae, case), alone, strict=True)))
    dit_torch.disable_vae(vae)
    tell("not enabled", lambda: dit_torch.disable_vae(vae))
    if dist.get_rank() == 1:
        vae.decoder.conv_in.bias.data += 1
    tell("weights", lambda: dit_torch.enable_vae(vae))
    ltx = tiny_vaes.CASES["ltx"]
    noisy = ltx._replace(config=ltx.config | {"decoder_inject_noise": (True,) * 5})
    tell("noise", lambda: dit_torch.enable_vae(noisy.make()))
    tell("class", lambda: dit_torch.enable_vae(nn.Linear(2, 2)))
    return told


def _raise(*_: Any) -> None:
    raise MemoryError("none is left on this rank")


def test_errors_have_words_and_all_ranks_go_on() -> None:
    first, second = ranks.run(2, _failures)
    assert first["memory"].startswith("RuntimeError: rank 1 failed: MemoryError: none is left")
    assert second["memory"].startswith("MemoryError")
    for told in (first, second):
        assert told["tiling"].startswith("TypeError: tile_height = 3: AutoencoderKLWan has no such tiling")
        assert "vae.tile_sample_min_height differs between ranks" in told["differs"]
        assert told["off"] == "False"
        assert "enabled already" in told["twice"]
        assert "decode: argument 1 differs between ranks" in told["latents"]
        assert told["gradients"].startswith("NotImplementedError: a backward pass came to an enabled VAE")
        assert told["right"] == "True"
        assert "is not enabled" in told["not enabled"]
        assert "the VAE's decoder.conv_in.bias differs" in told["weights"]
        assert "adds noise" in told["noise"]
        assert "Linear is not supported" in told["class"]


def test_tiles_are_shared_by_their_size() -> None:
    tiles = [Tile(size=size) for size in (4, 4, 2, 4, 4, 2, 2, 2, 1)]
    owners = shares_of(tiles, 2)
    loads = [sum(t.size for t, owner in zip(tiles, owners, strict=True) if owner == r) for r in range(2)]
    assert abs(loads[0] - loads[1]) == 1
    assert set(shares_of(tiles[:2], 3)) == {0, 1}
