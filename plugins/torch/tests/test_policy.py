"""Lossy policies: between nodes only, alike on all ranks, and no picture depends on the one before."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

import dit_torch
import needs
import ranks
import tiny
from dit_torch._library import Attention, Library, Trial
from dit_torch.steps import Place, Steps

STEPS = (1.0, 0.75, 0.5, 0.25)


def _images(policy: str, seeds: list[int], steps: int = len(STEPS), nodes: bool = True) -> list[np.ndarray]:
    """Pictures of a few steps, one after the other, each rank on a node of its own."""
    if nodes:
        ranks.be_a_node()
    model = tiny.flux(3)
    dit_torch.enable(model, policy=policy, steps=steps, adapt=False)
    pictures = []
    with torch.no_grad():
        for seed in seeds:
            given = tiny.flux_inputs(seed=seed)
            x = given["hidden_states"]
            for timestep in STEPS:
                given |= {"timestep": torch.full((1,), timestep), "hidden_states": x}
                x = x - 0.25 * model(**given, return_dict=False)[0]
            pictures.append(x.numpy())
    dit_torch.disable(model)
    return pictures


@needs.LIBRARY
@pytest.mark.parametrize("policy", ["fp8", "fast"])
def test_no_picture_depends_on_the_one_before(policy: str) -> None:
    exact = ranks.run(2, _images, "exact", [0])[0]
    one = ranks.run(2, _images, policy, [0, 1])
    other = ranks.run(2, _images, policy, [1, 0])
    assert 1e-5 < np.abs(one[0][0] - exact[0]).max() < 0.2
    for rank in range(2):
        np.testing.assert_array_equal(one[rank][0], one[0][0])
        np.testing.assert_array_equal(one[rank][0], other[rank][1])
        np.testing.assert_array_equal(one[rank][1], other[rank][0])


def _guarded(guard: float) -> str:
    rules = [{"mode": "residual int2"}]
    return json.dumps({"format": "dit-wire-policy", "version": 1, "guard": guard, "rules": rules})


def _one_of_each(policies: list[str]) -> list[np.ndarray]:
    return [_images(policy, [0])[0] for policy in policies]


@needs.LIBRARY
def test_a_guard_sends_more_where_too_much_is_left_behind() -> None:
    policies = ["exact", _guarded(0), _guarded(1e6), _guarded(1e-6)]
    exact, unguarded, silent, always = ranks.run(2, _one_of_each, policies)[0]
    np.testing.assert_array_equal(silent, unguarded)
    assert 0 < np.abs(always - exact).max() < 0.2 * np.abs(unguarded - exact).max()


@needs.LIBRARY
def test_inside_a_node_everything_travels_in_full() -> None:
    exact, coded = (ranks.run(2, _images, policy, [0], 4, False)[0] for policy in ("exact", "fp8"))
    np.testing.assert_array_equal(exact[0], coded[0])


def _timesteps_read(policy: str) -> int:
    """In pictures of ranks on one node: on a GPU reading one waits for the device."""
    read = []
    original, Steps.next = Steps.next, lambda *given: read.append(given) or original(*given)  # type: ignore
    _images(policy, [0], nodes=False)
    return len(read)


@needs.LIBRARY
def test_inside_a_node_a_preset_reads_no_timestep() -> None:
    assert ranks.run(2, _timesteps_read, "balanced") == [0, 0]
    within = json.dumps(
        {"format": "dit-wire-policy", "version": 1, "rules": [{"mode": "bf16", "level": "node"}]}
    )
    assert ranks.run(2, _timesteps_read, within) == [len(STEPS)] * 2  # rules may be for links within a node


def _with_trial(pays: bool) -> tuple[np.ndarray, int, str]:
    """A picture with fp8 where a trial finds that, how often one was made, and what is reported."""
    ranks.be_a_node()
    trials = []

    def try_policy(self: Library, group: str, attention: Attention) -> Trial:
        trials.append(group)
        return Trial(pays=int(pays), exact_seconds=0.002, policy_seconds=0.003)

    original, Library.try_policy = Library.try_policy, try_policy  # type: ignore[method-assign]
    model = tiny.flux(3)
    dit_torch.enable(model, policy="fp8", steps=2)
    given = tiny.flux_inputs()
    with torch.no_grad():
        for timestep in (1.0, 0.5):
            x = model(**given | {"timestep": torch.full((1,), timestep)}, return_dict=False)[0]
    words = str(dit_torch.report(model))
    dit_torch.disable(model)
    Library.try_policy = original  # type: ignore[method-assign]
    return x.numpy(), len(trials), words


def _exact() -> np.ndarray:
    ranks.be_a_node()
    model = tiny.flux(3)
    dit_torch.enable(model)
    with torch.no_grad():
        x = model(**tiny.flux_inputs() | {"timestep": torch.full((1,), 0.5)}, return_dict=False)[0]
    dit_torch.disable(model)
    return x.numpy()


@needs.LIBRARY
def test_a_preset_is_off_where_exact_transfers_are_faster() -> None:
    exact = ranks.run(2, _exact)[0]
    picture, trials, words = ranks.run(2, _with_trial, False)[0]
    np.testing.assert_array_equal(picture, exact)
    assert trials == 1, "once for a shape"
    assert "policy off for" in words and "2.00 ms exact and 3.00 ms with it" in words
    picture, trials, words = ranks.run(2, _with_trial, True)[0]
    assert 1e-5 < np.abs(picture - exact).max() < 0.2
    assert trials == 1 and "policy off" not in words


def _followed(pays: list[bool]) -> tuple[list[tuple[float, int]], list[np.ndarray]]:
    """What is told of forward passes of a short text, then of a longer one, where trials find that; and the
    outputs."""
    ranks.be_a_node()
    told: list[tuple[float, int]] = []

    def try_policy(self: Library, group: str, attention: Attention) -> Trial:
        return Trial(pays=int(pays[attention.text_tokens > 5]), exact_seconds=0.002, policy_seconds=0.003)

    def follow(self: Steps, timestep: float, *more: Any) -> Place:
        place = following(self, timestep, *more)
        told.append((round(timestep, 2), place.step))
        return place

    trying, Library.try_policy = Library.try_policy, try_policy  # type: ignore[method-assign]
    following, Steps.next = Steps.next, follow  # type: ignore[method-assign]
    model = tiny.flux(3)
    dit_torch.enable(model, policy="fp8", steps=5)
    outputs = []
    timestep = torch.ones(1)
    with torch.no_grad():
        for text in (5, 5, 5, 12, 12):
            given = tiny.flux_inputs(text=text) | {"timestep": timestep}
            outputs.append(model(**given, return_dict=False)[0].numpy())
            timestep -= 0.125  # in place, as a captured graph's inputs are
    dit_torch.disable(model)
    Library.try_policy, Steps.next = trying, following  # type: ignore[method-assign]
    return told, outputs


@needs.LIBRARY
def test_a_pass_is_followed_later_while_the_policy_is_off() -> None:
    told, outputs = ranks.run(2, _followed, [False, True])[0]
    steps = [(1.0, 0), (0.88, 1), (0.75, 2), (0.62, 0), (0.5, 1)]
    assert told == steps  # the fourth has another prompt
    at_once, others = ranks.run(2, _followed, [True, True])[0]
    assert at_once == steps
    np.testing.assert_array_equal(outputs[3], others[3])
    told, outputs = ranks.run(2, _followed, [False, False])[0]
    assert told == steps[:-1]  # nobody has asked for the last one's place


def _really_tried() -> tuple[bool, str]:
    ranks.be_a_node()
    model = tiny.flux(3)
    dit_torch.enable(model, policy="fp8", steps=2)
    with torch.no_grad():
        model(**tiny.flux_inputs(), return_dict=False)
    report = dit_torch.report(model)
    dit_torch.disable(model)
    return bool(report.off), str(report)


@needs.LIBRARY
def test_ranks_come_to_one_answer() -> None:
    answers = ranks.run(3, _really_tried)
    assert len({off for off, _ in answers}) == 1, answers


def _refused(*arguments: Any, **named: Any) -> str:
    with pytest.raises((ValueError, RuntimeError, TypeError)) as told:
        dit_torch.enable(tiny.flux(3), *arguments, **named)
    return str(told.value)


@needs.LIBRARY
def test_what_is_wrong_with_a_policy_is_said() -> None:
    assert "steps = None" in ranks.run(1, _refused, policy="fp8")[0]
    assert "steps = 'many'" in ranks.run(1, _refused, policy="fp8", steps="many")[0]
    assert "branches = 0" in ranks.run(1, _refused, policy="fp8", steps=4, branches=0)[0]
    assert "no such policy" in ranks.run(1, _refused, policy="no such policy", steps=4)[0]


def _equal_steps(name: str, policy: str, steps: int) -> list[float]:
    """How far from exact each of a picture's steps is, all with the same input: each rank on its own node."""
    ranks.be_a_node()
    make, inputs = tiny.MODELS[name]
    model = make(4)
    given = inputs(batch=1)
    outputs: dict[str, list[torch.Tensor]] = {}
    for one in ("exact", policy):
        dit_torch.enable(model, policy=one, steps=steps, branches=1, adapt=False)
        with torch.no_grad():
            outputs[one] = [
                model(
                    **given | {"timestep": given["timestep"].double() * (1 - 1e-9 * step)}, return_dict=False
                )[0]
                for step in range(steps)
            ]
        dit_torch.disable(model)
    pairs = zip(outputs[policy], outputs["exact"], strict=True)
    return [float((lossy - exact).abs().max()) for lossy, exact in pairs]


@needs.LIBRARY
@pytest.mark.parametrize("name", ["ltx", "flux", "wan"])
def test_each_layer_has_references_of_its_own(name: str) -> None:
    """What a layer has sent before is known, so that equal steps come closer and closer to exact."""
    rules = {"format": "dit-wire-policy", "version": 1, "rules": [{"mode": "residual int4"}]}
    away = ranks.run(2, _equal_steps, name, json.dumps(rules), 5)[0]
    assert away[0] > 1e-4 and away[-1] < 0.05 * away[0], away


@needs.LIBRARY
def test_rows_are_chosen_for_each_layer_of_other_models() -> None:
    assert max(ranks.run(2, _equal_steps, "ltx", "paper", 12)[0]) < 1


def _with_one_processor() -> list[str]:
    model = tiny.MODELS["ltx"][0](4)
    blocks = model.transformer_blocks
    blocks[1].attn1.set_processor(blocks[0].attn1.processor)
    told = []
    for policy in ("exact", "fp8"):
        try:
            dit_torch.enable(model, policy=policy, steps=2)
            dit_torch.disable(model)
            told.append("")
        except ValueError as error:
            told.append(str(error))
    return told


@needs.LIBRARY
def test_a_processor_of_several_layers_knows_no_layer() -> None:
    for exact, lossy in ranks.run(2, _with_one_processor):
        assert exact == "" and "policy = 'fp8': expected 'exact'" in lossy


def _guided(branches: int | None) -> tuple[float, int, np.ndarray]:
    """Bytes sent and the last step of two pictures of FLUX with true guidance: two prompts a step."""
    ranks.be_a_node()
    model = tiny.flux(3)
    dit_torch.enable(model, policy="balanced", steps=len(STEPS), branches=branches, adapt=False)
    given = [tiny.flux_inputs(), tiny.flux_inputs()]
    given[1]["encoder_hidden_states"] = given[1]["encoder_hidden_states"] + 1
    with torch.no_grad():
        for _ in range(2):
            for timestep in STEPS:
                for one in given:
                    x = model(**one | {"timestep": torch.full((1,), timestep)}, return_dict=False)[0]
    report = dit_torch.report(model)
    dit_torch.disable(model)
    return (
        sum(level["sent_bytes"] for level in report.levels.values()),
        report.exchanges[0]["branch"],
        x.numpy(),
    )


@needs.LIBRARY
def test_guidance_that_a_model_can_do_without_is_noticed() -> None:
    told = ranks.run(2, _guided, None)[0]
    named = ranks.run(2, _guided, 2)[0]
    assert told[:2] == named[:2] and told[1] == 1
    np.testing.assert_array_equal(told[2], named[2])  # the second picture knows from its begin


def _given_up(scheduler: bool, after: int) -> list[np.ndarray]:
    """A picture after one that was given up at a higher timestep, and the same picture alone."""
    from diffusers import FlowMatchEulerDiscreteScheduler

    ranks.be_a_node()
    made = FlowMatchEulerDiscreteScheduler()
    pictures = []
    for before in (after, 0):
        model = tiny.flux(3)
        made.set_timesteps(4)
        dit_torch.enable(model, policy="balanced", steps=made if scheduler else 4, adapt=False)
        given = tiny.flux_inputs()

        def run(begin: int, end: int, model: Any = model, given: Any = given) -> torch.Tensor:
            made.set_timesteps(4)
            x = given["hidden_states"]
            for timestep in made.timesteps[begin:end]:
                inputs = given | {"hidden_states": x, "timestep": timestep.view(1) / 1000}
                x = made.step(model(**inputs, return_dict=False)[0], timestep, x, return_dict=False)[0]
            return x

        with torch.no_grad():
            run(0, before)
            pictures.append(run(2, 4).numpy())
        dit_torch.disable(model)
    return pictures


@needs.LIBRARY
def test_a_scheduler_tells_a_picture_from_one_that_was_given_up() -> None:
    for steps in (1, 2):
        after, alone = ranks.run(2, _given_up, True, steps)[0]
        np.testing.assert_array_equal(after, alone)
    after, alone = ranks.run(2, _given_up, False, 2)[0]  # a number of steps cannot
    assert np.abs(after - alone).max() > 0


def _with_budget(budget: int | None) -> tuple[list[np.ndarray], dict[str, str], int]:
    """A step of a short and of a long text, and what is remembered."""
    ranks.be_a_node()
    model = tiny.flux(3)
    dit_torch.enable(model, policy="fast", steps=2, branches=1, adapt=False, reference_bytes=budget)
    outputs = []
    with torch.no_grad():
        for given in (tiny.flux_inputs(text=5), tiny.flux_inputs(text=12)):
            outputs.append(model(**given, return_dict=False)[0].numpy())
    report = dit_torch.report(model)
    dit_torch.disable(model)
    return outputs, report.off, sum(one["wire_bytes"] for one in report.exchanges)


def _exact_texts() -> list[np.ndarray]:
    ranks.be_a_node()
    model = tiny.flux(3)
    dit_torch.enable(model)
    with torch.no_grad():
        outputs = [model(**tiny.flux_inputs(text=text), return_dict=False)[0].numpy() for text in (5, 12)]
    dit_torch.disable(model)
    return outputs


@needs.LIBRARY
def test_shapes_that_would_remember_too_much_are_exact() -> None:
    exact = ranks.run(2, _exact_texts)[0]
    outputs, off, whole = ranks.run(2, _with_budget, None)[0]
    assert off == {} and all(np.abs(a - b).max() > 0 for a, b in zip(outputs, exact, strict=True))
    told = ranks.run(2, _with_budget, whole - 1)
    for outputs, off, held in told:
        assert held < whole and len(off) == 1 and "to remember, of" in next(iter(off.values()))
        assert np.abs(outputs[0] - exact[0]).max() > 0
        np.testing.assert_array_equal(outputs[1], exact[1])
    outputs, off, held = ranks.run(2, _with_budget, 0)[0]
    assert held == 0 and len(off) == 2
    np.testing.assert_array_equal(outputs[0], exact[0])


def _guidance_within_budget(budget: int | None) -> tuple[dict[str, str], list[int]]:
    """A picture with a short text, then one with a longer text and guidance."""
    ranks.be_a_node()
    model = tiny.flux(3)
    dit_torch.enable(model, policy="fast", steps=2, adapt=False, reference_bytes=budget)
    short, long, other = (tiny.flux_inputs(text=text, seed=seed) for text, seed in ((5, 0), (12, 0), (12, 1)))
    with torch.no_grad():
        for timestep, given in ((0.9, short), (0.4, short), (0.9, long), (0.9, other)):
            model(**{**given, "timestep": torch.full((1,), timestep)}, return_dict=False)
    report = dit_torch.report(model)
    dit_torch.disable(model)
    return report.off, [one["wire_bytes"] for one in report.exchanges]


@needs.LIBRARY
def test_what_is_used_has_the_budget_before_what_was_used() -> None:
    off, (short, long) = ranks.run(2, _guidance_within_budget, None)[0]
    assert off == {} and long > short > 0
    for off, (short, again) in ranks.run(2, _guidance_within_budget, long):
        assert again == long and short == 0 and len(off) == 1 and "1x5+20" in next(iter(off))


def _bytes_by(rules: list[dict[str, str]], name: str = "flux", **inputs: int) -> float:
    """What a step sends between nodes under these rules."""
    ranks.be_a_node()
    make, given = tiny.MODELS[name]
    model = make(4)
    text = json.dumps({"format": "dit-wire-policy", "version": 1, "rules": rules})
    dit_torch.enable(model, policy=text, steps=1, adapt=False)
    with torch.no_grad():
        model(**given(**inputs), return_dict=False)
    report = dit_torch.report(model)
    dit_torch.disable(model)
    sent = report.levels["world"]["sent_bytes"]
    if name == "flux":  # one shape: what is told beforehand is what is sent
        np.testing.assert_allclose(report.levels["world"]["share"], sent / report.full_bytes, rtol=1e-6)
    return sent


@needs.LIBRARY
def test_rules_know_text_tokens() -> None:
    """8 text and 20 image tokens on two ranks, fp32: bf16 is half."""
    text, image = {"mode": "bf16", "tokens": "text"}, {"mode": "bf16", "tokens": "image"}
    full = ranks.run(2, _bytes_by, [{"mode": "full"}], text=8)[0]
    assert ranks.run(2, _bytes_by, [text], text=8)[0] == full * (1 - 4 / 28)
    assert ranks.run(2, _bytes_by, [image], text=8)[0] == full * (1 - 10 / 28)
    assert ranks.run(2, _bytes_by, [text, image], text=8)[0] == full / 2


@needs.LIBRARY
def test_keys_of_text_are_text_where_queries_are_of_an_image() -> None:
    text, image = {"mode": "bf16", "tokens": "text"}, {"mode": "bf16", "tokens": "image"}
    full, of_text, of_image, both = (
        ranks.run(2, _bytes_by, rules, "ltx")[0]
        for rules in ([{"mode": "full"}], [text], [image], [text, image])
    )
    assert both == full / 2 and of_text + of_image == full + both and both < of_image < of_text < full


def _in_pairs(variable: str, value: str, policies: list[str]) -> list[tuple[np.ndarray, dict[str, Any]]]:
    """A picture by each policy, of pairs of ranks that reach each other, and what was sent."""
    os.environ[variable] = f"{value}{dist.get_rank() // 2}"
    told = []
    for policy in policies:
        model = tiny.flux(4)
        dit_torch.enable(model, policy=policy, steps=len(STEPS), adapt=False)
        given = tiny.flux_inputs()
        x = given["hidden_states"]
        with torch.no_grad():
            for timestep in STEPS:
                at = {"timestep": torch.full((1,), timestep), "hidden_states": x}
                x = x - 0.25 * model(**given | at, return_dict=False)[0]
        told.append((x.numpy(), dit_torch.report(model).levels))
        dit_torch.disable(model)
    return told


@needs.LIBRARY
def test_through_a_hosts_memory_policies_do_what_they_do_between_nodes() -> None:
    """Presets, and a file's rules for nodes; the pairs are on one host, or on two."""
    rules = [{"mode": "fp8"}]
    policies = ["exact", "balanced", "fast", "paper"]
    policies.append(json.dumps({"format": "dit-wire-policy", "version": 1, "rules": rules}))
    hosts = ranks.run(4, _in_pairs, "TAPA_GPU_PEERS", "group:", policies)
    nodes = ranks.run(4, _in_pairs, "TAPA_DEVICE_NODE", "node ", policies)
    exact = hosts[0][0][0]
    for here, there in zip(hosts, nodes, strict=True):
        for policy, (picture, levels), (other, between) in zip(policies, here, there, strict=True):
            np.testing.assert_array_equal(picture, other, err_msg=policy)
            assert (policy == "exact") == np.array_equal(picture, exact)
            assert list(levels) == ["gpu", "host"] and list(between) == ["node", "world"]
            assert levels["gpu"] == between["node"] and levels["gpu"]["share"] == 1
            assert levels["host"] == between["world"]
            assert (levels["host"]["share"] == 1) == (policy == "exact")
            full = here[0][1]
            assert levels["gpu"]["sent_bytes"] == full["gpu"]["sent_bytes"] > 0
            assert policy == "exact" or levels["host"]["sent_bytes"] < full["host"]["sent_bytes"]


def _begun(widths: list[int]) -> list[tuple[int, bool]]:
    """Images in a row of one pass each as report() has them, and whether it says so, after each pass."""
    ranks.be_a_node()
    model = tiny.flux(3)
    dit_torch.enable(model, policy="fp8", steps=len(widths), adapt=False)
    told = []
    with torch.no_grad():
        for number, width in enumerate(widths):
            timestep = torch.full((1,), 1 - number // 2 * 0.25)  # two passes a step
            model(**tiny.flux_inputs(width=width, seed=number % 2) | {"timestep": timestep})
            report = dit_torch.report(model)
            told.append((report.begun, "began an image" in str(report)))
    dit_torch.disable(model)
    return told


@needs.LIBRARY
def test_passes_that_each_begin_an_image_are_reported() -> None:
    """As of LTX-2 with spatio-temporal guidance: one pass has a sample for each branch, the other one."""
    (first, *others) = ranks.run(2, _begun, [5, 4, 5, 4])[0]
    assert first == (1, False) and others == [(2, True), (3, True), (4, True)]
    assert ranks.run(2, _begun, [5, 5, 5, 5])[0] == [(1, False), *3 * [(0, False)]]
