"""schedule="auto": V first where exchanges take long, in a node and between nodes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import dit_torch
import needs
import ranks
import tiny
from dit_torch.exchanges import Exchanges, Key


def _on_links(seconds: float, nodes: bool) -> tuple[str, str, int, np.ndarray]:
    """The schedule before and after a forward pass where exact exchanges take so long."""
    if nodes:
        ranks.be_a_node()
    asked = []

    def are_fast(self: Exchanges, name: str) -> bool:
        asked.append(name)
        self.fast[name] = seconds < 1e-3
        return self.fast[name]

    original, Exchanges.are_fast = Exchanges.are_fast, are_fast  # type: ignore[method-assign]
    model = tiny.flux(3)
    dit_torch.enable(model)
    before = dit_torch.report(model).schedule
    with torch.no_grad():
        x = model(**tiny.flux_inputs(), return_dict=False)[0]
    after = dit_torch.report(model).schedule
    dit_torch.disable(model)
    Exchanges.are_fast = original  # type: ignore[method-assign]
    return before, after, len(asked), x.numpy()


@needs.LIBRARY
@pytest.mark.parametrize("nodes", [True, False])
def test_the_schedule_follows_the_links(nodes: bool) -> None:
    before, after, asked, fast = ranks.run(2, _on_links, 1e-4, nodes)[0]
    assert (before, after) == ("auto", "flat") and asked > 0
    before, after, asked, slow = ranks.run(2, _on_links, 1e-2, nodes)[0]
    assert (before, after) == ("auto", "v-first") and asked > 0
    np.testing.assert_array_equal(fast, slow)


def test_lengths_beyond_timed_ones_are_not_timed() -> None:
    timed = []

    def exact_time(name: str, attention: Any, enough: float) -> float:
        timed.append(attention.image_tokens)
        return attention.image_tokens * 1e-7

    library = SimpleNamespace(exact_time=exact_time)
    group = SimpleNamespace(name="group", opened=0, size=2, one_node=True, library=library)
    exchanges = Exchanges(group, 0)
    found = {}
    for tokens in (2000, 5000, 1000, 6000, 3500, 2500, 4000, 2000):
        key = Key((1, 0, tokens, 4, 4, 64), False, False, torch.bfloat16, torch.device("cuda"), 0)
        found[tokens] = exchanges.measure(key)
    assert found == {tokens: tokens < 3000 for tokens in found}
    assert timed == [2000, 5000, 3500, 2500]
