"""Policies' bits on GPUs, for check_gpu.py: those of the host, and what a guard decides."""

from __future__ import annotations

import json

import torch

import gpu_models
from dit_torch import _library
from gpu_ranks import Check, require_same
from operator_cases import KEY, QUERY, VALUE, Case, source

dit = torch.ops.dit


def policies(near: str) -> list[bytes]:
    """Of all kinds, for the level that these ranks are on."""
    guarded = gpu_models.rules(
        near, {"mode": "residual int8"}, {"mode": "residual int1", "tensors": ["q", "o"]}
    )
    tokens = gpu_models.rules(
        near,
        {"mode": "residual int2"},
        {"mode": "residual int8", "tokens": "text"},
        {"mode": "fp8", "tokens": "text", "tensors": ["v"]},
        {"mode": "skip", "tokens": "image", "tensors": ["k"], "steps": [2, -1]},
    )
    return [
        b"fp8",
        b"balanced",
        b"v-major:warmup=1,refresh=3,ratio=linear",
        json.dumps(json.loads(guarded) | {"guard": 0.3}).encode(),
        tokens.encode(),
    ]


def check_policy(check: Check) -> None:
    """A policy's bits are the host's, and what its guard decides; a new image forgets the one before."""
    cases = (
        Case(1, 8, 64, 4, 4, 32),
        Case(2, 5, 19, 5, 5, 16, _library.TEXT_REPLICATED),
        Case(1, 4, 21, 4, 2, 32, _library.IMAGE_FIRST),
    )
    near = check.nearest_level()
    for number, case in enumerate(cases):
        for policy in policies(near)[0 if number == 0 else 3 :]:
            require_policy(check, case, policy)


def require_policy(check: Check, case: Case, policy: bytes) -> None:
    more = {"policy": policy, "layers": 2, "steps": 4}
    ours = check.exchange(case, torch.bfloat16, **more)
    host = check.exchange(case, torch.bfloat16, on_host=True, **more)
    library = check.group.library
    assert library is not None
    for image in range(2):
        for step in range(4):
            for name in (ours, host):
                library.begin_step(name, step, 0)
            for block in range(2):
                x = [
                    source(host, case, what, step + block, torch.bfloat16, check.rank)
                    for what in (QUERY, KEY, VALUE)
                ]
                right = dit.scatter_qkv(*x, host, block)
                given = dit.scatter_qkv(*(one.to(check.device) for one in x), ours, block)
                for what in range(3):
                    require_same(
                        f"{case}, {policy!r}, image {image}, step {step}, {what}", given[what], right[what]
                    )
                require_same(
                    f"{case}, {policy!r}: gather",
                    dit.gather(given[0], ours, block),
                    dit.gather(right[0], host, block),
                )
        spoken = check.report(ours)["guarded"]
        assert spoken == check.report(host)["guarded"], f"{policy!r}: guarded"
        if case.text == 8:
            assert (0 < spoken < 4 * 2 * 4) == (b"guard" in policy), f"{policy!r}: {spoken} guarded"
        for name in (ours, host):
            library.reset(name)
    check.free(ours, host)
