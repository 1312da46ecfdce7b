"""install(): all_to_all_single of others goes through our exchange."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol

import dit_torch
import ranks
from dit_torch._library import library

pytestmark = pytest.mark.skipif(library() is None, reason="libdit_torch.so is not there")


def _exchanged() -> list[bool]:
    rank, size = dist.get_rank(), dist.get_world_size()
    before = (dist.all_to_all_single, funcol.all_to_all_single)
    rows = torch.arange(size * 6.0).reshape(size, 6) + 100 * rank
    uneven = [1 + (rank + peer) % 2 for peer in range(size)]  # symmetric: what is sent is what comes back
    given = torch.arange(sum(uneven) * 3.0).reshape(-1, 3) + 100 * rank
    expected, expected_uneven = torch.empty_like(rows), torch.empty_like(given)
    dist.all_to_all_single(expected, rows)
    dist.all_to_all_single(expected_uneven, given, uneven, uneven)

    dit_torch.install(devices=("cpu",))
    found, found_uneven = torch.empty_like(rows), torch.empty_like(given)
    told = [dist.all_to_all_single is not before[0]]
    dist.all_to_all_single(found, rows)
    work = dist.all_to_all_single(found_uneven, given, uneven, uneven, async_op=True)
    work.wait()
    told += [torch.equal(found, expected), torch.equal(found_uneven, expected_uneven)]
    functional = funcol.all_to_all_single(rows, None, None, dist.group.WORLD)
    told.append(torch.equal(functional, expected))

    def compiled(x: torch.Tensor) -> torch.Tensor:
        return 2 * funcol.all_to_all_single(x + 1, None, None, dist.group.WORLD)

    graph = torch.compile(compiled, fullgraph=True, backend="aot_eager")
    told.append(torch.equal(graph(rows), 2 * (expected + 1)))
    with pytest.raises(RuntimeError, match="before"):
        dit_torch.install()
    told += _without_order(rank, size)
    late = dist.all_to_all_single  # as a module has it that is imported now
    dit_torch.uninstall()
    late(found.zero_(), rows)
    told.append(torch.equal(found, expected))
    told.append((dist.all_to_all_single, funcol.all_to_all_single) == before)
    return told


def _without_order(rank: int, size: int) -> list[bool]:
    """Tensors that are not contiguous, on some ranks only."""
    rows = torch.arange(size * 4.0).reshape(size, 4) + 100 * rank
    expected = torch.stack([torch.arange(rank * 4.0, rank * 4.0 + 4) + 100 * peer for peer in range(size)])
    given = rows if rank else rows.t().contiguous().t()
    found = torch.empty(4, size).t() if rank else torch.empty(size, 4)
    dist.all_to_all_single(found, given)
    functional = funcol.all_to_all_single(given, None, None, dist.group.WORLD)
    return [torch.equal(found, expected), torch.equal(functional, expected)]


@pytest.mark.parametrize("size", [2, 3])
def test_all_to_all_single(size: int) -> None:
    for told in ranks.run(size, _exchanged):
        assert all(told), told
