"""What a program may do with an enabled transformer, or forget to do."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

import dit_torch
import needs
import ranks
import tiny
from dit_torch.group import Group
from dit_torch.processors import processors_of


def _output(model: nn.Module, **given: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(**(given or tiny.flux_inputs()), return_dict=False)[0]


def _copied() -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name in ("flux", "ltx"):
        model = tiny.MODELS[name][0](3)
        before = {key: x.clone() for key, x in model.state_dict().items()}
        dit_torch.enable(model)
        for how, call in (("deepcopy", copy.deepcopy), ("pickle", pickle.dumps)):
            with pytest.raises(TypeError) as error:
                call(model)
            told[f"{name} {how}"] = str(error.value)
        after = model.state_dict()
        told[f"{name} state"] = before.keys() == after.keys() and all(
            torch.equal(x, after[key]) for key, x in before.items()
        )
        dit_torch.disable(model)
        told[f"{name} afterwards"] = pickle.loads(pickle.dumps(copy.deepcopy(model))) is not model
    return told


def test_copies_are_refused_and_the_state_is_the_models() -> None:
    for name, value in ranks.run(1, _copied)[0].items():
        assert value is True or "dit_torch.disable(transformer) first" in value, name


def _saved(folder: str) -> bool:
    model = dit_torch.enable(tiny.flux(3))
    model.save_pretrained(f"{folder}/{dist.get_rank()}")
    loaded = type(model).from_pretrained(f"{folder}/{dist.get_rank()}")
    every = _output(model)
    dit_torch.disable(model)
    # Not to the bit: torch's products depend on where weights lie.
    assert torch.allclose(_output(model), _output(loaded), rtol=0, atol=1e-5)
    state = loaded.state_dict()
    assert all(torch.equal(x, state[name]) for name, x in model.state_dict().items())
    return torch.allclose(every, _output(loaded), rtol=0, atol=1e-5)


def test_an_enabled_model_can_be_saved(tmp_path: Any) -> None:
    assert all(ranks.run(2, _saved, str(tmp_path)))


def _forgotten(cfg_parallel: bool) -> dict[str, Any]:
    from dit_torch import parallel

    names = []
    for _ in range(2):
        model = dit_torch.enable(tiny.sd3(3), cfg_parallel=cfg_parallel)
        _output(model, **tiny.sd3_inputs(batch=2))
        gone = weakref.ref(model)
        names.append(len(parallel.enabled))
        del model
        gc.collect()
        assert gone() is None
    model = dit_torch.enable(tiny.sd3(3))  # whoever enables next frees what the others left
    names.append(len(parallel.enabled))
    dit_torch.disable(model)
    return {"enabled": names, "left": len(parallel.enabled)}


@pytest.mark.parametrize("cfg_parallel", [False, True])
def test_a_model_that_is_gone_leaves_nothing(cfg_parallel: bool) -> None:
    for told in ranks.run(2, _forgotten, cfg_parallel):
        assert told == {"enabled": [1, 1, 1], "left": 0}


def _group_destroyed_first() -> list[np.ndarray]:
    """torch.distributed ends, and begins anew, while a model is enabled."""
    rank, size = dist.get_rank(), dist.get_world_size()
    model, forgotten = tiny.flux(3), tiny.flux(3)
    originals = processors_of(model)
    outputs = [_output(model)]
    for one in (model, forgotten):
        dit_torch.enable(one)
        _output(one)
    path = torch.distributed.distributed_c10d._get_default_store().get("meeting").decode()
    dist.barrier()
    dist.destroy_process_group()
    dit_torch.disable(model)
    assert processors_of(model) == originals
    outputs.append(_output(model))
    dist.init_process_group("gloo", f"file://{path}", rank=rank, world_size=size)
    dit_torch.enable(model)
    outputs.append(_output(model))
    dit_torch.disable(model)
    return [output.numpy() for output in outputs]


def _with_second_meeting(folder: str) -> list[np.ndarray]:
    store = torch.distributed.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        store.set("meeting", os.path.join(folder, "second"))
    return _group_destroyed_first()


def test_a_process_group_that_is_destroyed_first(tmp_path: Any) -> None:
    for one, after, every in ranks.run(2, _with_second_meeting, str(tmp_path)):
        np.testing.assert_array_equal(after, one)
        np.testing.assert_allclose(every, one, rtol=0, atol=1e-5)


class _Broken(Exception):
    pass


def _break(*_: Any) -> None:
    raise _Broken


def _interrupted(where: str, schedule: str) -> dict[str, Any]:
    """A forward pass fails on all ranks alike, as when memory is short; the next ones do not."""
    model = tiny.flux(3)
    one = _output(model)
    dit_torch.enable(model, schedule=schedule)
    broken = model.get_submodule(where).register_forward_pre_hook(_break)
    for _ in range(2):
        with pytest.raises(_Broken):
            _output(model)
    broken.remove()
    every = [_output(model), _output(model)]
    dit_torch.disable(model)
    return {"one": one.numpy(), "every": [x.numpy() for x in every]}


@pytest.mark.parametrize(
    ("where", "schedule"),
    [
        ("transformer_blocks.1.attn.to_q", "v-first"),
        ("single_transformer_blocks.0.attn.to_q", "pipelined"),
        ("transformer_blocks.1.ff", "flat"),
    ],
)
def test_a_forward_pass_that_fails_on_all_ranks(where: str, schedule: str) -> None:
    for told in ranks.run(2, _interrupted, where, schedule):
        for every in told["every"]:
            np.testing.assert_allclose(every, told["one"], rtol=0, atol=1e-5)


def _one_rank_fails(where: str, schedule: str) -> dict[str, Any]:
    model = tiny.flux(3)
    one = _output(model)
    dit_torch.enable(model, schedule=schedule, timeout_seconds=3)
    _output(model)
    begin = time.monotonic()
    broken = model.get_submodule(where).register_forward_pre_hook(_break) if dist.get_rank() == 1 else None
    with pytest.raises((_Broken, RuntimeError)) as told:
        _output(model)
    if broken is not None:
        broken.remove()
    assert time.monotonic() - begin < 20
    dit_torch.disable(model)
    after = _output(model)
    dit_torch.enable(model, schedule=schedule)
    every = _output(model)
    dit_torch.disable(model)
    return {"words": str(told.value), "one": one.numpy(), "after": after.numpy(), "every": every.numpy()}


@pytest.mark.parametrize(
    ("where", "schedule"),
    [
        ("transformer_blocks.1.attn.to_q", "flat"),
        ("transformer_blocks.1.attn.to_q", "v-first"),
        ("proj_out", "flat"),  # the others wait for the output
    ],
)
def test_a_forward_pass_that_fails_on_one_rank(where: str, schedule: str) -> None:
    told = ranks.run(2, _one_rank_fails, where, schedule)
    assert "rank 1" in told[0]["words"] or where == "proj_out"
    for of_rank in told:
        np.testing.assert_array_equal(of_rank["after"], of_rank["one"])
        np.testing.assert_allclose(of_rank["every"], of_rank["one"], rtol=0, atol=1e-5)


def _gradient_of_the_operator() -> str:
    group = Group(timeout_seconds=20)
    x = torch.ones(2 + dist.get_rank(), 3, requires_grad=True)
    with pytest.raises(NotImplementedError) as told:
        torch.ops.dit.all_gather(x, 0, 5, group.name).sum().backward()
    group.close()
    return str(told.value)


@needs.LIBRARY
def test_the_librarys_gather_refuses_a_backward_pass_in_the_same_words() -> None:
    for words in ranks.run(2, _gradient_of_the_operator):
        assert "expected torch.no_grad()" in words


class _Numbers(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, at: int) -> int:
        return at


def _workers() -> list[Any]:
    model = dit_torch.enable(tiny.flux(3))
    before = _output(model)
    loaded = [int(x) for x in torch.utils.data.DataLoader(_Numbers(), num_workers=2)]
    after = _output(model)
    dit_torch.disable(model)
    return [loaded, torch.equal(before, after)]


def test_forked_workers_live_and_end_by_themselves() -> None:
    assert ranks.run(2, _workers) == [[[0, 1, 2, 3], True]] * 2


def _modes() -> bool:
    model = dit_torch.enable(tiny.flux(3))
    before = _output(model)
    with torch.inference_mode():
        inside = model(**tiny.flux_inputs(), return_dict=False)[0]
    again = _output(model)
    dit_torch.disable(model)
    return torch.equal(before, inside) and torch.equal(before, again)


def _threads() -> list[bool]:
    """As servers do: enabled by one thread, called and disabled by others."""
    model = tiny.flux(3)
    told = [_output(model)]
    calls = (
        lambda: dit_torch.enable(model),
        lambda: told.append(_output(model)),
        lambda: told.append(_output(model)),
        lambda: dit_torch.disable(model),
    )
    for call in calls:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    told.append(_output(model))
    return [torch.allclose(one, told[0], rtol=0, atol=1e-5) for one in told]


def test_threads_take_turns() -> None:
    assert ranks.run(2, _threads) == [[True] * 4] * 2


def test_inference_mode() -> None:
    assert all(ranks.run(2, _modes))


def _in_a_process(program: str, *arguments: str, **environment: str) -> str:
    """What a Python program of its own prints; it ends well, and soon."""
    done = subprocess.run(
        [sys.executable, *arguments, program],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


FORGETFUL = """
import dit_torch, tiny, torch
dit_torch.init()
model = dit_torch.enable(tiny.flux(3), schedule="v-first")
with torch.no_grad():
    model(**tiny.flux_inputs())
print("computed")
"""


FORGETFUL_WITHOUT = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(4))
"""


def test_programs_that_clean_up_nothing_end(tmp_path: Any) -> None:
    program, without = tmp_path / "forgetful.py", tmp_path / "without.py"
    program.write_text(FORGETFUL)
    without.write_text(FORGETFUL_WITHOUT)
    here = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    try:
        assert _in_a_process(str(program), *torchrun, PYTHONPATH=here).count("computed") == 2
    except AssertionError as error:
        if "terminate called without an active exception" not in str(error):
            raise
        for _ in range(8):  # torch 2.15's gloo ends so, now and then
            try:
                _in_a_process(str(without), *torchrun)
            except AssertionError:
                pytest.skip("programs that leave a group of gloo to its end abort without dit_torch, too")
        raise
    assert _in_a_process(str(program), PYTHONPATH=here).count("computed") == 1  # no launcher: one rank


ALONE = """
import sys, dit_torch, tiny, torch
failing, ending = int(sys.argv[1]), sys.argv[2]
rank = dit_torch.init().rank
group = torch.distributed.new_group([0, 1]) if ending == "some" else None
if rank == 2:
    torch.distributed.barrier()
    sys.exit()
model, given = tiny.flux(3), tiny.flux_inputs()
fails = [False]


def fail(*_):
    if fails[0]:
        raise MemoryError("none is left on this rank")


def forward():
    with torch.no_grad():
        return model(**given, return_dict=False)[0]


(model.proj_out if ending == "some" else model.transformer_blocks[1]).register_forward_pre_hook(fail)
one = forward()
dit_torch.enable(model, group, timeout_seconds=3)
forward()
fails[0] = rank == failing
try:
    forward()
except (MemoryError, RuntimeError) as error:
    sys.stdout.write(f"told {type(error).__name__}\\n")
fails[0] = False
dit_torch.disable(model)
if ending == "together":
    torch.distributed.barrier()
if ending in ("anew", "some"):
    dit_torch.enable(model, group, timeout_seconds=3)
    sys.stdout.write(f"again {torch.allclose(forward(), one, rtol=0, atol=1e-5)}\\n")
    dit_torch.disable(model)
if ending == "some":
    torch.distributed.barrier()
"""


@pytest.mark.parametrize(
    ("failing", "ending"), [("0", "anew"), ("1", "anew"), ("1", "apart"), ("1", "together"), ("1", "some")]
)
def test_ranks_begin_anew_or_end_after_one_of_them_failed(tmp_path: Any, failing: str, ending: str) -> None:
    """With nothing between, though the others notice seconds later."""
    program = tmp_path / "alone.py"
    program.write_text(ALONE)
    here = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    size = "3" if ending == "some" else "2"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", size]
    done = subprocess.run(
        [*torchrun, str(program), failing, ending],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": here},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "terminate called" not in done.stderr and "told MemoryError" in done.stdout, done.stderr
    assert done.stdout.count("again True") == 2 * (ending in ("anew", "some")), done.stdout


IMPORT = """
import logging, signal, sys
sys.modules["diffusers"] = None  # as if it were not there
import torch, torch.distributed as dist
before = (dist.all_to_all_single, torch.get_default_dtype(), torch.is_grad_enabled(),
          logging.getLogger().handlers[:], signal.getsignal(signal.SIGINT))
import dit_torch
after = (dist.all_to_all_single, torch.get_default_dtype(), torch.is_grad_enabled(),
         logging.getLogger().handlers[:], signal.getsignal(signal.SIGINT))
assert before == after and not dist.is_initialized()
dit_torch.init()
try:
    dit_torch.enable(torch.nn.Linear(2, 2))
except ValueError as error:
    assert "Linear is not supported" in str(error)
"""


def test_importing_needs_no_diffusers_and_changes_nothing() -> None:
    _in_a_process(IMPORT, "-c")


def _made_and_closed() -> list[list[bool]]:
    there: list[list[bool]] = []
    controls: list[weakref.ref] = []
    for _ in range(2):
        group = Group(timeout_seconds=20)
        controls.append(weakref.ref(group.control))
        group.close()
        del group
        gc.collect()
        there.append([control() is not None for control in controls])
    return there


def test_a_group_of_gloo_does_not_end_right_after_it_was_used() -> None:
    """With torch 2.5 its end waits for gloo's thread, which waits for Python: now and then, for ever."""
    assert ranks.run(2, _made_and_closed) == [[[True], [False, True]]] * 2


def _again_and_again() -> list[int]:
    model = tiny.flux(3)
    gc.disable()  # a server may be long without
    held = []
    for number in range(12):
        dit_torch.enable(model)
        _output(model)
        dit_torch.disable(model)
        if number % 6 == 5:
            held.append(len(os.listdir("/proc/self/fd")))
    gc.enable()
    return held


def test_enabling_again_leaves_no_sockets() -> None:
    for before, after in ranks.run(2, _again_and_again):
        assert after <= before + 4, (before, after)  # of a group that the other rank has not let go yet
