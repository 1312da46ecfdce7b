"""What trace() says of the exchange's time, and the file that it writes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

import dit_torch
import ranks
import tiny
from dit_torch._library import library
from dit_torch.times import Times, length, times_of, union, without
from dit_torch.trace import put, spans_of

SPANS = [(0, 2), (1, 3), (3, 4), (6, 6), (7, 9), (8, 8.5), (12, 10)]


def test_spans_that_touch_are_joined_and_empty_ones_go() -> None:
    assert union(SPANS) == [(0, 4), (7, 9)]
    assert length(SPANS) == 6
    assert union([]) == [] and length([]) == 0


def _points(spans: list[tuple[float, float]], until: int) -> set[int]:
    return {x for x in range(until) if any(begin <= x < end for begin, end in spans)}


def test_what_is_left_is_in_the_spans_and_in_none_of_the_others() -> None:
    """All pairs of two spans each, on six points, against sets."""
    ends = [(a, b) for a in range(6) for b in range(a + 1, 7)]
    pairs = [[one, other] for one in ends[::2] for other in ends]
    for spans in pairs:
        for others in pairs[::3]:
            left = without(spans, others)
            assert _points(left, 7) == _points(spans, 7) - _points(others, 7)
            assert left == union(left)


def test_only_what_nothing_covers_shows() -> None:
    told = times_of(exchange=[(2000, 5000), (8000, 9000)], compute=[(0, 3000), (4000, 8500)])
    assert told == Times(wall_ms=9, compute_ms=7.5, exchange_ms=4, exposed_ms=1.5)
    assert told.idle_ms == 0 and told.bound_ms == 7.5
    assert "1.50 shows (16.7 %)" in str(told)
    assert times_of([], []) == Times(0, 0, 0, 0) and "0.00 ms" in str(times_of([], []))


def _event(category: str, name: str, begin: float, duration: float) -> dict[str, object]:
    return {"ph": "X", "cat": category, "name": name, "ts": begin, "dur": duration}


def test_a_gpu_is_told_by_its_kernels_and_copies_alone() -> None:
    exchange, others = spans_of(
        [
            {"ph": "M", "name": "process_name"},
            _event("cpu_op", "dit::start", 0, 100),
            _event("gpu_user_annotation", "Torch-Compiled Region", 0, 100),
            _event("kernel", "void tapa::device::(anonymous namespace)::alltoall<Blocks>(Call)", 10, 5),
            _event("kernel", "dit::wire::encode", 20, 1),
            _event("kernel", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 30, 1),
            _event("kernel", "nvjet_tst_128x256", 12, 9),
            _event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 40, 2),
        ]
    )
    assert exchange == [(10, 15), (20, 21), (30, 31)]
    assert others == [(12, 21), (40, 42)]


def test_operators_of_a_host_lie_within_one_another() -> None:
    exchange, others = spans_of(
        [
            _event("cpu_op", "aten::linear", 0, 10),
            _event("cpu_op", "aten::addmm", 1, 8),
            _event("cpu_op", "dit::gather", 10, 5),
            _event("cpu_op", "aten::empty", 11, 1),
        ]
    )
    assert times_of(exchange, others) == Times(0.015, 0.01, 0.005, 0.005)


def _traced(file: str) -> tuple[Times, dict[str, int], str]:
    model = tiny.flux(4)
    dit_torch.enable(model, schedule="v-first")
    inputs = tiny.flux_inputs(text=8)
    with torch.no_grad():
        model(**inputs)
        with dit_torch.trace(model, file) as trace:
            model(**inputs)
    told = dit_torch.report(model)
    assert told.times == trace.times and str(trace.times) in str(told)
    dit_torch.disable(model)
    return trace.times, trace.sent_bytes, str(trace)


def test_a_pass_is_traced(tmp_path: Path) -> None:
    told = ranks.run(2, _traced, str(tmp_path / "trace-{rank}.json"))
    for rank, (times, sent, text) in enumerate(told):
        assert 0 < times.exposed_ms <= times.exchange_ms < times.wall_ms
        assert times.compute_ms > 0
        if library() is not None:
            # As in test_report: 28 tokens, 4 heads of 16 in fp32, four blocks.
            assert sum(sent.values()) == 4 * 14 * 2 * 16 * 4 * 4 and "level" in text
        written = json.loads((tmp_path / f"trace-{rank}.json").read_text())
        assert written["dit_torch"]["schedule"] == "v-first"


def _traced_in_halves(file: str) -> int:
    model, inputs = tiny.sd3(4), tiny.sd3_inputs(batch=2)
    dit_torch.enable(model, cfg_parallel=True)
    with torch.no_grad(), dit_torch.trace(model, file):
        model(**inputs)
    rank = dit_torch.report(model).rank
    dit_torch.disable(model)
    return rank


def test_each_rank_of_both_halves_writes_a_file_of_its_own(tmp_path: Path) -> None:
    assert ranks.run(2, _traced_in_halves, str(tmp_path / "trace-{rank}.json")) == [0, 1]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["trace-0.json", "trace-1.json"]


def _failing() -> str:
    model = tiny.flux(2)
    dit_torch.enable(model)
    with pytest.raises(ValueError, match=r"file = '/nowhere/x.json'"):
        dit_torch.trace(model, "/nowhere/x.json")
    with pytest.raises(KeyError), dit_torch.trace(model):
        raise KeyError("of the program")
    assert dit_torch.report(model).times is None
    dit_torch.disable(model)
    with pytest.raises(ValueError, match="is not enabled"):
        dit_torch.trace(model)
    return "done"


def test_errors_pass_through() -> None:
    assert ranks.run(1, _failing) == ["done"]


def test_a_trace_is_whole_and_keeps_a_link_and_rights(tmp_path: Path) -> None:
    written, file, target = tmp_path / "written", tmp_path / "trace.json", tmp_path / "elsewhere" / "target"
    written.write_text("spans")
    target.parent.mkdir()
    target.write_text("older")
    target.chmod(0o640)
    file.symlink_to("elsewhere/target")
    put(written, file)
    assert (target.read_text(), file.is_symlink(), target.stat().st_mode & 0o777) == ("spans", True, 0o640)
    with pytest.raises(FileNotFoundError):
        put(tmp_path / "nothing", file)
    assert target.read_text() == "spans"
    names = sorted(entry.name for entry in tmp_path.rglob("*"))
    assert names == ["elsewhere", "target", "trace.json", "written"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's link")
def test_another_users_link_is_refused(tmp_path: Path) -> None:
    written, file, thesis = tmp_path / "written", tmp_path / "trace.json", tmp_path / "thesis"
    written.write_text("spans")
    thesis.write_text("years of work")
    file.symlink_to(thesis)
    os.chown(file, 65534, 65534, follow_symlinks=False)
    with pytest.raises(PermissionError, match="is a link of another user"):
        put(written, file)
    assert (thesis.read_text(), file.is_symlink()) == ("years of work", True)


def test_drafts_of_killed_processes_go(tmp_path: Path) -> None:
    written, file = tmp_path / "written", tmp_path / "trace.json"
    written.write_text("spans")
    drafts = [tmp_path / "trace.json.0a1b2c.part", tmp_path / "trace.json.d3e4f5.part"]
    for draft in drafts:
        draft.write_text("half")
    os.utime(drafts[0], (1, 1))
    put(written, file)
    assert [draft.exists() for draft in drafts] == [False, True]
