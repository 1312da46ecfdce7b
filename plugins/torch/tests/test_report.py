"""What report() says."""

from __future__ import annotations

import torch

import dit_torch
import needs
import ranks
import tiny
from dit_torch import Report
from dit_torch._library import library


def _report(forwards: int) -> tuple[Report, str]:
    model = tiny.flux(4)
    dit_torch.enable(model, schedule="flat")
    with torch.no_grad():
        for _ in range(forwards):
            model(**tiny.flux_inputs(text=8))
    told = dit_torch.report(model)
    dit_torch.disable(model)
    return told, str(told)


def test_it_says_how_the_model_is_split() -> None:
    told, text = ranks.run(2, _report, 1)[1]
    assert (told.model, told.rank, told.ranks, told.schedule) == ("FluxTransformer2DModel", 1, 2, "flat")
    assert "split hidden_states" in text and "gather output 0 of proj_out" in text
    assert told.parameter_bytes == sum(4 * p.numel() for p in tiny.flux(4).parameters())
    assert told.activation_bytes == 12 * 14 * 4 * 16 * 4  # tensors of 14 of 28 tokens, 4 heads of 16, fp32
    assert told.peak_bytes == told.parameter_bytes + told.buffer_bytes + told.activation_bytes


def test_before_any_forward_pass() -> None:
    told, text = ranks.run(2, _report, 0)[0]
    assert told.library == (library() is not None)
    assert f"exchange over {'libdit' if told.library else 'torch.distributed alone'}" in text


def _bytes_of_many_shapes() -> tuple[int, float]:
    model = dit_torch.enable(tiny.flux(4), schedule="flat")
    with torch.no_grad():
        for text in range(2, 14):  # more than are kept
            model(**tiny.flux_inputs(text=text))
    told = dit_torch.report(model)
    dit_torch.disable(model)
    return told.full_bytes, sum(level["sent_bytes"] for level in told.levels.values())


@needs.LIBRARY
def test_bytes_of_shapes_that_are_freed_count() -> None:
    told = ranks.run(2, _bytes_of_many_shapes)
    tokens = sum(20 + text for text in range(2, 14))
    assert (
        sum(full for full, _ in told) == tokens * 2 * 16 * 4 * 4 * 4
    )  # half of the heads, four tensors, four blocks
    assert all(sent == full for full, sent in told)


@needs.LIBRARY
def test_bytes_are_those_of_the_layout() -> None:
    """28 tokens, 4 heads of 16 in fp32 on two ranks: half of the rows, half of the heads go, four times."""
    for told, _ in ranks.run(2, _report, 3):
        sent = 14 * 2 * 16 * 4 * 4  # of Q, K, V and the output in a block
        assert sum(level["sent_bytes"] for level in told.levels.values()) == 3 * 4 * sent
        assert told.full_bytes == 3 * 4 * sent
