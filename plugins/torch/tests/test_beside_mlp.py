"""The MLP of a single-stream block: what it adds to the output is computed while attention's travels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from dit_torch.processors.beside_mlp import BesideMlp

HEADS, MLP, OUT = 12, 40, 20


def _ready(linear: nn.Module) -> tuple[BesideMlp, Tensor, Tensor]:
    """Projections whose `behind` is over, attention's output, and what belongs to both."""
    torch.manual_seed(1)
    o, hidden = torch.randn(2, 5, HEADS), torch.randn(2, 5, MLP)
    with torch.no_grad():
        expected = linear(torch.cat([o, hidden], dim=2))
    projections = BesideMlp()
    projections.linear, projections.mlp = linear, hidden
    if projections.has_behind():
        projections.behind()
    return projections, o, expected


@pytest.mark.parametrize("bias", [True, False])
def test_a_plain_linear_is_taken_apart(bias: bool) -> None:
    projections, o, expected = _ready(nn.Linear(HEADS + MLP, OUT, bias=bias))
    assert projections.has_behind()
    projections.mlp = torch.full_like(projections.mlp, torch.nan)  # it is not needed any more
    torch.testing.assert_close(projections.output(o), expected)


def test_what_is_around_a_linear_sees_all_of_it() -> None:
    linear = nn.Linear(HEADS + MLP, OUT)
    seen: list[torch.Size] = []
    linear.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape))
    projections, o, expected = _ready(linear)
    assert not projections.has_behind()
    assert torch.equal(projections.output(o), expected)
    assert seen == [(2, 5, HEADS + MLP)] * 2
