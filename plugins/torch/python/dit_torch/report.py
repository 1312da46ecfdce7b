"""report(): what an enabled transformer does, and what it sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from .enable import Enabled, enabled, plain
from .exchanges import Traffic
from .times import Times


@dataclass(frozen=True)
class Report:
    """Facts of this rank; str() of it is for people."""

    model: str
    rank: int  # of torch.distributed
    ranks: int  # that split tokens, in the last pass; half of all_ranks where halves shared it
    all_ranks: int
    parallel: str  # what all ranks, and what halves of them, computed, and why
    schedule: str
    policy: str
    processors: str  # "dit_torch" or "diffusers"
    plan: tuple[str, ...]
    parameter_bytes: int
    buffer_bytes: int
    library: bool  # exchanges go over libdit; else over torch.distributed alone
    exchanges: tuple[dict[str, Any], ...]  # a dict for each shape; over libdit what dit_torch.h says
    levels: dict[str, dict[str, float]] = field(default_factory=dict)  # "node", "world": sent_bytes, share
    full_bytes: int = 0  # what exact transfers would have sent
    exchange_bytes: int = 0  # memory of results, of work and of what a policy remembers
    activation_bytes: int = 0  # an estimate: what a forward pass holds at most of what it computes
    off: dict[str, str] = field(default_factory=dict)  # shapes for which the policy is off, and why
    begun: int = 0  # images by the last passes, each one: a policy makes nothing of what was sent before
    times: Times | None = None  # of what trace() saw last
    graphs: str = ""  # how many passes went as CUDA graphs; "": none are captured
    ranks_differ: bool = False  # found in the last passes, or in replays of a graph; the next pass says what

    @property
    def peak_bytes(self) -> int:
        """What torch's allocator will hold at most in a forward pass, if nothing else is in it. The memory of
        the exchange is none of torch's, and lies beside it."""
        return self.parameter_bytes + self.buffer_bytes + self.activation_bytes

    def __str__(self) -> str:
        half = "" if self.ranks == self.all_ranks else f", one of the halves of {self.all_ranks}"
        over = "libdit" if self.library else "torch.distributed alone"
        lines = [
            f"{self.model} on {self.ranks} ranks{half}: schedule {self.schedule}, policy {self.policy}, "
            f"processors of {self.processors}, exchange over {over}",
            f"  parallel: {self.parallel}",
            *(f"  {entry}" for entry in self.plan),
            *(f"  exchange {one['exchange']}" for one in self.exchanges),
            *(f"  policy off for {shape}: {words}" for shape, words in self.off.items()),
        ]
        if self.begun > 1:
            lines.append(
                f"  policy: each of the last {self.begun} passes began an image, and nothing sent before was "
                "of use: passes of a step differ in size, or repeat a prompt, or images have one step"
            )
        for name, level in self.levels.items():
            lines.append(
                f"  level {name}: {level['sent_bytes'] / 2**20:.1f} MiB sent, policy's share "
                f"{level['share']:.3f} of the full tensors"
            )
        held = (self.parameter_bytes + self.buffer_bytes, self.activation_bytes, self.exchange_bytes)
        weights, activations, exchange = (f"{one / 2**20:.1f} MiB" for one in held)
        lines.append(f"  memory: {weights} weights, about {activations} activations, {exchange} exchange")
        if self.graphs:
            lines.append(f"  CUDA graphs: {self.graphs}")
        if self.ranks_differ:
            lines.append("  ranks were given different things: results are NaN, and the next pass says why")
        if self.times is not None:
            lines.append(f"  traced {self.times}")
        return "\n".join(lines)


# As many tensors of Q's size are alive at the peak of a block; measured: 10 (Wan 2.1) to 15 (FLUX.1, eager).
_LIVE_TENSORS = 12


def _bytes_of(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _parallel(this: Enabled) -> str:
    if isinstance(this.guidance, str):
        return f"{this.whole.size} ranks split the tokens of all calls ({this.guidance})"
    return this.guidance.text()


def report(transformer: nn.Module) -> Report:
    """Facts about an enabled transformer on this rank, since enable(). Local. Raises where a forward pass was
    not completed on a GPU, which the host learns later."""
    this = enabled(transformer)
    parallel = this.parallel
    this.whole.check()
    parallel.group.check()
    library = parallel.group.library
    exchanges = [way.exchanges for way in parallel.ways]
    rows = [facts for one in exchanges for facts in one.facts()]
    traffic = Traffic()
    for one in exchanges:
        traffic.join(one.freed)
    if library is not None:
        for facts in rows:
            traffic.add(facts)
    kept = ("slot_bytes", "workspace_bytes", "wire_bytes")
    own = any(maker is not None for maker in this.family.processors.values())
    return Report(
        model=this.family.model,
        rank=parallel.group.ranks[parallel.group.rank],
        ranks=parallel.group.size,
        all_ranks=this.whole.size,
        parallel=_parallel(this),
        schedule=parallel.settled if own else "flat",
        policy=parallel.exchanges.policy,
        processors="dit_torch" if own else "diffusers",
        plan=tuple(str(entry) for entry in this.plan),
        parameter_bytes=_bytes_of(plain(transformer).parameters()),
        buffer_bytes=_bytes_of(plain(transformer).buffers()),
        library=library is not None,
        exchanges=tuple(rows),
        levels=traffic.levels,
        full_bytes=traffic.full_bytes,
        exchange_bytes=sum(one.get(name, 0) for one in rows for name in kept),
        activation_bytes=_LIVE_TENSORS * max(one.sequence_bytes() for one in exchanges),
        off={shape: words for one in exchanges for shape, words in one.off.items()},
        begun=0 if this.follower is None else this.follower.begun,
        times=this.times,
        graphs="" if this.graphs is None else str(this.graphs.counts),
        ranks_differ=this.inputs is not None and this.inputs.seen(),
    )
