"""Which ranks are nodes of their own, as their GPUs do not reach each other."""

from __future__ import annotations

from dit_torch import reach


def _reached(pairs: set[tuple[int, int]], ranks: int) -> list[list[bool]]:
    return [[a == b or (a, b) in pairs for b in range(ranks)] for a in range(ranks)]


def _both(*pairs: tuple[int, int]) -> set[tuple[int, int]]:
    return {*pairs, *((b, a) for a, b in pairs)}


def test_ranks_that_reach_each_other_are_together() -> None:
    ranks = [0, 1, 2, 3]
    every = {(a, b) for a in ranks for b in ranks}
    assert reach.groups(ranks, _reached(every, 4)) == [ranks]
    assert reach.groups(ranks, _reached(set(), 4)) == [[0], [1], [2], [3]]
    assert reach.groups(ranks, _reached(_both((0, 2), (1, 3)), 4)) == [[0, 2], [1, 3]]


def test_one_way_is_no_reach_and_groups_reach_all_of_theirs() -> None:
    assert reach.groups([0, 1], _reached({(0, 1)}, 2)) == [[0], [1]]
    assert reach.groups([0, 1, 2], _reached(_both((0, 1), (1, 2)), 3)) == [[0, 1], [2]]


def test_hosts_without_gpus_are_one_node() -> None:
    def gather(value: object) -> list[object]:
        return [value, value]  # of two ranks that know the same

    assert reach.name_node("here", 1, gather) == "here"  # type: ignore[arg-type]


def test_cards_that_refuse_are_nodes_of_their_own(monkeypatch) -> None:
    monkeypatch.setattr(reach, "_gpu", lambda: "a GPU")
    monkeypatch.setenv("TAPA_GPU_PEERS", "0")
    rows = [reach._reached(["a GPU", "another"], rank) for rank in range(2)]
    assert rows == [[True, False], [False, True]]

    def gather(value: object) -> list[object]:
        return [value, value] if isinstance(value, tuple) else rows  # type: ignore[list-item]

    assert [reach.name_node("here", rank, gather) for rank in range(2)] == ["here", "here#1"]
