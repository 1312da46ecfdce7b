"""Who computes which call: a function of the calls alone."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch

from dit_torch.guidance import BRANCHES, Call, Calls, Role, Size, text_of, why_not

SMALL, LARGE = (Size(torch.Size((samples, 20, 8)), torch.float32) for samples in (1, 2))
KINDS = [Call(branch, size) for branch in (*BRANCHES, None) for size in (SMALL, LARGE)]
LENGTH = 5


@pytest.mark.parametrize("splits", [False, True])
def test_all_orders_of_calls(splits: bool) -> None:
    """Each call is computed once, by ranks that all agree on; a wrong guess costs no more than that."""
    for order in itertools.product(KINDS, repeat=LENGTH):
        calls, before = Calls(), None
        for at, call in enumerate(order):
            role = calls.next(call, splits)
            last = order[at - 1] if at else None
            pair = (last, call)
            if role is Role.SECOND:  # of the call before, which was computed by the other half
                assert before is Role.FIRST and last == call.other
            if before is Role.FIRST and last == call.other:
                assert role is Role.SECOND
            if role is Role.FIRST:  # such a call was followed by its other branch before
                assert call.branch is not None
                assert (call, call.other) in itertools.pairwise(order[:at])
            if role is Role.SAMPLES:
                assert splits and call.size == LARGE
            if role is Role.ALONE:
                assert not splits or call.size == SMALL
            assert calls.follows == (last is not None and last == call.other), pair
            before = role


def _roles(words: str, splits: bool = False) -> str:
    """Letters: of calls of the first branch, the second, and of none; and of their roles."""
    calls, known = Calls(), {"c": BRANCHES[0], "u": BRANCHES[1], "-": None}
    letters = {Role.ALONE: "a", Role.FIRST: "1", Role.SECOND: "2", Role.SAMPLES: "s"}
    return "".join(letters[calls.next(Call(known[one], SMALL), splits)] for one in words)


def test_what_pipelines_do() -> None:
    assert _roles("cucucucu") == "aa121212"
    assert _roles("ucucuc") == "aa1212"
    assert _roles("cccc") == "aaaa"
    assert _roles("----") == "aaaa"
    assert _roles("cucuccc" + "cucucu") == "aa121aa" + "aa1212", "guidance that ends"
    assert _roles("cccucu") == "aaaa12", "guidance that begins"


def test_nothing_is_shared_where_it_is_not_possible_now() -> None:
    calls = Calls()
    first, second = Call("cond", LARGE), Call("uncond", LARGE)
    for call in (first, second, first):
        assert calls.next(call, True, False) is Role.ALONE
    roles = [calls.next(call, False) for call in (second, first, second)]
    assert roles == [Role.ALONE, Role.ALONE, Role.FIRST]
    calls.forget()
    assert calls.next(first, False) is Role.ALONE


def test_why_ranks_are_not_halved() -> None:
    assert [why_not(ranks, False, "") for ranks in (1, 2, 3, 4)] == [
        "1 rank cannot be halved",
        "",
        "3 ranks cannot be halved",
        "",
    ]
    assert "verify" in why_not(2, True, "") and why_not(2, False, "no cache_context") == "no cache_context"


def test_what_is_told() -> None:
    assert text_of(Counter(), 4, True, "") == "0 calls were computed by all 4 ranks"
    words = text_of(Counter({Role.FIRST: 2, Role.SECOND: 2, Role.ALONE: 3}), 4, False, "")
    assert words == (
        "4 calls were one of two branches, each computed by 2 ranks; "
        "3 calls were computed by both halves of 4 ranks"
    )
    words = text_of(Counter({Role.SAMPLES: 1}), 2, True, "")
    assert words == "1 calls had an even number of samples, a half of them for 1 rank"
    assert text_of(Counter({Role.ALONE: 1}), 2, True, "a cache").endswith("by all 2 ranks (a cache)")
