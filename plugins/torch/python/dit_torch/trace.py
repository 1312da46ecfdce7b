"""trace(): what forward passes spend on the exchange, and a file for chrome://tracing or Perfetto.

    with dit_torch.trace(transformer, "trace-{rank}.json") as trace:
        transformer(...)                # one forward pass or a few: traces grow fast
    print(trace.times, trace.sent_bytes)

Of passes on a GPU its own clock counts: kernels and copies of the exchange on one side, all others on the
other. On a host, whose operators wait, all of the exchange shows. Each rank traces itself: nothing is
collective.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import nn

from .enable import enabled
from .report import report
from .times import Span, Times, times_of, without
from .whole_file import draft_of

# Kernels and copies of libtapa and libdit; NCCL's where dit_torch goes over torch.distributed.
_ON_DEVICE = re.compile(r"\btapa::|\bdit::|nccl|^Memcpy PtoP")
_ON_HOST = re.compile(r"^dit(_reference|_sized)?::")
_DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def put(written: Path, file: Path) -> None:
    """A copy at `file`."""
    with written.open("rb") as source, draft_of(file) as copy:
        shutil.copyfileobj(source, copy)


def spans_of(events: list[dict[str, Any]]) -> tuple[list[Span], list[Span]]:
    """The exchange's and all other spans, in microseconds, of the events in torch.profiler's Chrome trace: of
    the GPU where it did something, else of the host."""
    complete = [event for event in events if event.get("ph") == "X"]
    chosen = [event for event in complete if event.get("cat") in _DEVICE_WORK]
    ours = _ON_DEVICE
    if not chosen:
        chosen = [event for event in complete if event.get("cat") == "cpu_op"]
        ours = _ON_HOST
    exchange: list[Span] = []
    others: list[Span] = []
    for event in chosen:
        begin = float(event["ts"])
        span = (begin, begin + float(event["dur"]))
        (exchange if ours.search(event["name"]) else others).append(span)
    # The host's operators lie within one another.
    return exchange, others if ours is _ON_DEVICE else without(others, exchange)


class Trace:
    """A context; what it holds is there when the context is left without an exception."""

    times: Times
    sent_bytes: dict[str, int]  # within the context, by level

    def __init__(self, transformer: nn.Module, file: str | os.PathLike[str] | None = None) -> None:
        """:param file: takes the Chrome trace; `{rank}` in it is this rank's number. None: no file"""
        self._enabled = enabled(transformer)
        self._transformer = transformer
        self.file = (
            None if file is None else Path(os.fspath(file).replace("{rank}", str(self._report().rank)))
        )
        if self.file is not None and not self.file.parent.is_dir():
            raise ValueError(f"file = {str(file)!r}: expected a name in a folder that exists")

    def _report(self) -> Any:
        return report(self._transformer)

    def _sent(self) -> dict[str, int]:
        return {name: int(level["sent_bytes"]) for name, level in self._report().levels.items()}

    def __enter__(self) -> Trace:
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._before = self._sent()
        self._profiler = torch.profiler.profile(activities=activities)
        self._profiler.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if torch.cuda.is_available() and kind is None:
            torch.cuda.synchronize()
        self._profiler.__exit__(kind, error, where)
        if kind is not None:
            return
        with tempfile.TemporaryDirectory() as folder:
            written = Path(folder, "trace.json")
            self._profiler.export_chrome_trace(str(written))
            traced = json.loads(written.read_text(encoding="utf-8"))
            if self.file is not None:
                # Not the profiler's to write: it spoils quotes within words.
                written.write_text(json.dumps({**traced, "dit_torch": dataclasses.asdict(self._report())}))
                put(written, self.file)
        self.times = times_of(*spans_of(traced["traceEvents"]))
        self.sent_bytes = {name: sent - self._before.get(name, 0) for name, sent in self._sent().items()}
        self._enabled.times = self.times

    def __str__(self) -> str:
        if not hasattr(self, "times"):
            return "a trace of nothing yet: expected to be read after its with block has ended well"
        sent = (f"level {name}: {count / 2**20:.2f} MiB sent" for name, count in self.sent_bytes.items())
        return "\n".join([str(self.times), *sent])


trace = Trace
