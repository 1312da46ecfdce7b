"""LoRA adapters: there before enable(), added, scaled, fused and removed after it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import dit_torch
import ranks
import tiny

peft = pytest.importorskip("peft")

# As what trainers call "all linear layers" gives: the last layer too, which has a hook of ours.
TARGETS = r".*(to_q|to_k|to_v|to_out\.0|to_qkv_mlp_proj|add_q_proj|proj_mlp|proj_out|img_in|patch_embedding)$"


def _output(model: nn.Module, given: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad():
        return model(**given, return_dict=False)[0]


def _close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=0, atol=1e-5)


def _add(model: Any, name: str, seed: int) -> None:
    torch.manual_seed(seed)
    config = peft.LoraConfig(r=4, lora_alpha=4, init_lora_weights=False, target_modules=TARGETS)
    model.add_adapter(config, adapter_name=name)


def _of_one_rank(name: str, given: dict[str, Any]) -> dict[str, torch.Tensor]:
    model = tiny.MODELS[name][0](3)
    told = {"none": _output(model, given)}
    for adapter, seed in (("a", 1), ("b", 2)):
        _add(model, adapter, seed)
        model.set_adapters([adapter])
        told[adapter] = _output(model, given)
    model.set_adapters(["a", "b"], [1.0, 0.5])
    told["both"] = _output(model, given)
    return told


def _after(name: str) -> dict[str, bool]:
    """Adapters come and go while the transformer is enabled."""
    given = tiny.MODELS[name][1]()
    one = _of_one_rank(name, given)
    model = dit_torch.enable(tiny.MODELS[name][0](3))
    told = {"plain": _close(_output(model, given), one["none"])}
    for adapter, seed in (("a", 1), ("b", 2)):
        _add(model, adapter, seed)
        model.set_adapters([adapter])
        told[adapter] = _close(_output(model, given), one[adapter])
    model.set_adapters(["a", "b"], [1.0, 0.5])
    told["both"] = _close(_output(model, given), one["both"])
    model.disable_adapters()
    told["switched off"] = _close(_output(model, given), one["none"])
    model.enable_adapters()
    model.delete_adapters("b")
    told["deleted"] = _close(_output(model, given), one["a"])
    model.fuse_lora()
    told["fused"] = _close(_output(model, given), one["a"])
    model.unfuse_lora()
    model.unload_lora()
    told["unloaded"] = _close(_output(model, given), one["none"])
    _add(model, "a", 1)
    dit_torch.disable(model)
    told["disabled"] = _close(_output(model, given), one["a"])
    return told


def _before(name: str) -> dict[str, bool]:
    given = tiny.MODELS[name][1]()
    one = _of_one_rank(name, given)
    model = tiny.MODELS[name][0](3)
    _add(model, "a", 1)
    dit_torch.enable(model)
    told = {"a": _close(_output(model, given), one["a"])}
    _add(model, "b", 2)
    model.set_adapters(["a", "b"], [1.0, 0.5])
    told["both"] = _close(_output(model, given), one["both"])
    dit_torch.disable(model)
    told["disabled"] = torch.equal(_output(model, given), one["both"])
    return told


def _everything() -> dict[str, bool]:
    told = {}
    for name in ("flux", "flux2", "qwenimage", "sd35", "wan", "ltx"):
        told |= {f"{name}, added after: {what}": good for what, good in _after(name).items()}
        told |= {f"{name}, added before: {what}": good for what, good in _before(name).items()}
    return told


def test_adapters_come_and_go() -> None:
    for told in ranks.run(2, _everything):
        assert all(told.values()), [what for what, good in told.items() if not good]


def _scaled() -> dict[str, bool]:
    """By the argument that pipelines give to each call, with a call for each branch."""
    told = {}
    model = tiny.qwenimage(3)
    _add(model, "a", 1)

    def step(scale: float, batch: int) -> torch.Tensor:
        outputs = []
        for branch, text in (("cond", 7), ("uncond", 5)):
            given = tiny.qwenimage_inputs(text, batch) | {"attention_kwargs": {"scale": scale}}
            with model.cache_context(branch):
                outputs.append(_output(model, given))
        return outputs[0] + outputs[1]

    # diffusers 0.36 makes tables for the longest text of a half: the other's are padded more.
    batches = (1,) if "txt_seq_lens" in tiny.qwenimage_inputs() else (1, 2)
    calls = [(scale, batch) for batch in batches for scale in (1.0, 0.5, 0.5, 0.25)]
    ones = [step(*call) for call in calls]
    for options in ({}, {"cfg_parallel": True}, {"parallel": "auto"}):
        dit_torch.enable(model, **options)
        every = [step(*call) for call in calls]
        dit_torch.disable(model)
        told |= {f"{options} {call}": _close(*two) for call, *two in zip(calls, every, ones, strict=True)}
    return told | {"it counts": not _close(ones[0], ones[1])}


def test_a_scale_that_is_given_with_a_call() -> None:
    for told in ranks.run(2, _scaled):
        assert all(told.values()), [what for what, good in told.items() if not good]
