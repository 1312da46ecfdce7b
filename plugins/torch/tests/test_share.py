"""share(): what one rank has, for all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

import dit_torch
import ranks


def _shared() -> list[Any]:
    rank = dist.get_rank()
    x = torch.arange(6.0).view(2, 3).t() + rank
    own = {"x": x, "more": [x.to(torch.bfloat16), (x > 2, None)], "scale": 0.5 + rank}
    told = []
    for source in (0, 1):
        found = dit_torch.share(own if rank == source else None, source)
        right = torch.arange(6.0).view(2, 3).t() + source
        told.append(torch.equal(found["x"], right) and found["scale"] == 0.5 + source)
        told.append(torch.equal(found["more"][0], right.bfloat16()) and found["more"][1][1] is None)
        told.append(torch.equal(found["more"][1][0], right > 2))
    told.append(torch.equal(dit_torch.share(x), torch.arange(6.0).view(2, 3).t()))
    with pytest.raises(ValueError, match="source = 7: expected one of the group's ranks"):
        dit_torch.share(x, source=7)
    return told


@pytest.mark.parametrize("size", [2, 3])
def test_all_have_what_one_rank_gives(size: int) -> None:
    for told in ranks.run(size, _shared):
        assert all(told), told


def _not_to_be_shared() -> list[str]:
    """On the rank that gives it alone; the next one is right."""
    told = []
    for what in (lambda: 1, torch.ones(3, device="meta"), torch.eye(3).to_sparse()):
        with pytest.raises(ValueError) as error:
            dit_torch.share({"x": torch.ones(2), "more": what} if dist.get_rank() == 0 else None)
        told.append(str(error.value))
    assert torch.equal(dit_torch.share(torch.ones(2) * dist.get_rank(), source=1), torch.ones(2))
    return told


def test_what_cannot_be_shared_is_told_to_all() -> None:
    for told in ranks.run(2, _not_to_be_shared):
        assert all("rank 0 has nothing to share" in words for words in told)
        assert "pickle" in told[0] and "expected one of plain numbers" in told[1] and "sparse" in told[2]


def _of_a_group() -> float:
    group = dist.new_group([1, 2])
    if dist.get_rank() == 0:
        return 0.0
    return float(dit_torch.share(torch.tensor(float(dist.get_rank())), source=2, group=group))


def test_within_a_group() -> None:
    assert ranks.run(3, _of_a_group) == [0.0, 2.0, 2.0]
