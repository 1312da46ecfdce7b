"""MPI programs at random, drawn from a seed and kept legal. Pure: starts nothing."""

import random

from lines import Line, Shape
from model import MAKES, MAKING, Model, legal

KINDS = ["barrier", "bcast", "allreduce", "reduce", "scan", "gather", "scatter", "allgather", "reduce_scatter"]
WRONG = ["count", "recvcount", "type", "recvtype", "icount", "itype", "vtype", "vnull", "wnull"]
MOST_COMMS = 9
MOST_REQUESTS = 12


class Drawing:
    """Draws the lines of one program."""

    def __init__(self, seed: int, shape: Shape) -> None:
        self.random = random.Random(f"{seed}/{shape}")
        self.shape = shape
        self.model = Model(shape.threads)
        self.lines: list[Line] = []
        self.last = 10
        # Each program has its own likes: else all would be alike.
        self.likes = {verb: self.random.choice([0.3, 1, 1, 3]) * weight for verb, weight in self.weights().items()}
        self.most_repeats = self.random.choice([3, 40, 400, 3000])
        self.long_rows = 4 if shape.patient else 0
        self.plain = self.random.choice([0.2, 0.5, 0.9])

    def weights(self) -> dict[str, float]:
        weights = {
            "alltoall": 30, "burst": 12, "make": 7, "free": 4, "wait": 10, "start": 6, "free_request": 2, "collective": 6,
            "icollective": 3, "messages": 4, "ring_of_messages": 2, "iprobe": 2, "churn": 1.5, "bad": 2, "attribute": 1,
            "errors_return": 1.5, "late": 2, "window": 1, "epoch": 3, "free_window": 0.5, "meet": 2,
        }  # fmt: skip
        if self.shape.threads == 1:
            del weights["meet"]
        if not self.shape.one_sided:
            for verb in ("window", "epoch", "free_window"):
                del weights[verb]
        return weights

    def add(self, thread: int, verb: str, **words: object) -> bool:
        line = Line(self.last + 1, thread, verb, {k: str(v) for k, v in words.items()})
        if not self.model.take(line):
            return False
        self.last += 1
        self.lines.append(line)
        return True

    def fresh(self, letter: str) -> str:
        return f"{letter}{self.last + 1}"

    def comm_of(self, thread: int) -> str:
        return self.random.choice([name for name, c in self.model.comms.items() if c.thread == thread])

    def requests_of(self, thread: int, persistent: bool | None, active: bool) -> list[str]:
        return [n for n, r in self.model.requests.items()
                if r.thread == thread and r.active == active and persistent in (None, r.persistent)]  # fmt: skip

    def some(self, names: list[str]) -> list[str]:
        return self.random.sample(names, self.random.randint(1, len(names))) if names else []

    def call(self, thread: int, comm: str, mode: str, shuffle: str = "") -> bool:
        r = self.random
        words: dict[str, object] = {"comm": comm, "form": r.choice("uuuvvw"), "mode": mode}
        words["length"] = r.choices(["small", "medium", "border", "long"], [12, 3, 3, 1])[0]
        if r.random() < self.plain:
            words["plain"] = 1
        if r.random() < 0.15:
            words["in_place"] = 1
        elif self.model.comms[comm].graph and r.random() < 0.8:
            words["along"] = 1
        if mode == "blocking" and words["length"] == "small" and r.random() < 0.3:
            words["repeat"] = r.randint(2, self.most_repeats)
        if mode == "blocking" and words["length"] == "small" and self.long_rows > 0 and r.random() < 0.2:
            self.long_rows -= 1
            words |= {"repeat": r.choice([10000, 30000]), "plain": 1, "form": r.choice("uuuv")}
        if mode == "blocking" and words["length"] == "border":
            words["repeat"] = r.choice([3, 3, 60])  # at 60 calls with few blocks go another way
        if mode == "blocking" and words["length"] == "long" and self.shape.layouts:
            words["repeat"] = 8  # so that trials of other plans come about
        if mode != "blocking":
            words["req"] = self.fresh("r")
        if shuffle:
            words["shuffle"] = shuffle
        return self.add(thread, "alltoall", **words)

    def alltoall(self, thread: int) -> None:
        mode = self.random.choices(["blocking", "nonblocking", "persistent"], [6, 2, 1])[0]
        if mode == "blocking" or len(self.model.requests) < MOST_REQUESTS:
            self.call(thread, self.comm_of(thread), mode)

    def burst(self, thread: int) -> None:
        """Nonblocking calls, and at most one blocking one, on several communicators: each rank in an order of its own."""
        names = [name for name, c in self.model.comms.items() if c.thread == thread]
        chosen = self.random.sample(names, min(len(names), self.random.randint(2, 4)))
        mark = self.fresh("s")
        for i, name in enumerate(chosen):
            self.call(thread, name, "blocking" if i == 0 and self.random.random() < 0.4 else "nonblocking", mark)

    def make(self, thread: int) -> None:
        if len(self.model.comms) >= MOST_COMMS:
            return
        ranks, r = self.shape.ranks, self.random
        verb = r.choices(MAKING, [3, 1, 4, 1, 2, 2, 2, 1, 4])[0]
        words: dict[str, object] = {"from": self.comm_of(thread), "to": self.fresh("c")}
        inter = [name for name, comm in self.model.comms.items() if comm.inter and comm.thread == thread]
        if inter and r.random() < 0.3:
            verb, words["from"] = "merge", r.choice(inter)
        if verb == "idup":
            words["req"] = self.fresh("r")
        if verb == "split":
            colors = r.choice([1, 2, 2, 3])
            words["colors"] = ",".join(str(-1 if r.random() < 0.1 else r.randrange(colors)) for _ in range(ranks))
            words["keys"] = ",".join(str(r.randrange(100)) for _ in range(ranks))
        if verb == "inter":
            words["colors"] = ",".join(str(r.randrange(2)) for _ in range(ranks))
        if verb in ("create", "create_group"):
            words["members"] = ",".join(str(m) for m in r.sample(range(ranks), r.randint(1, ranks)))
        if self.add(thread, verb, **words) and verb == "idup":
            self.add(thread, "wait", reqs=words["req"])

    def meet(self, _thread: int) -> None:
        """All threads wait for each other; then some communicators are another one's."""
        self.add(-1, "meet")
        for name in self.some(list(self.model.comms)):
            self.add(0, "give", comm=name, owner=self.random.randrange(self.shape.threads))

    def simple(self, thread: int, verb: str) -> None:
        r = self.random
        comm = self.comm_of(thread)
        if verb == "free":
            self.add(thread, verb, comm=comm, how=r.choice(["free", "free", "disconnect"]))
        elif verb == "collective":
            self.add(thread, verb, comm=comm, kind="neighbor" if self.model.comms[comm].ring else r.choice(KINDS))
        elif verb == "icollective":
            self.add(thread, verb, comm=comm, kind=r.choice(["barrier", "bcast", "allreduce"]), req=self.fresh("r"))
        elif verb == "messages":
            self.add(thread, verb, comm=comm, count=r.randint(1, 3), req=self.fresh("r"))
        elif verb == "ring_of_messages":
            self.add(thread, verb, comm=comm, matched=r.randrange(2))
        elif verb == "churn":
            self.add(thread, verb, comm=comm, times=r.randint(2, 6), form=r.choice("uvw"), mode="blocking", length="small",
                     plain=1, repeat=r.choice([1, 3, 30]))  # fmt: skip
        elif verb == "bad":
            self.add(thread, verb, comm=comm, kind=r.choice(WRONG))
        elif verb == "window":
            self.add(thread, verb, comm=comm, kind=r.choice(["allocate", "shared"]), win=self.fresh("w"))
        elif verb == "late":
            ranks = r.sample(range(self.shape.ranks), r.randint(1, self.shape.ranks))
            self.add(thread, verb, ranks=",".join(map(str, ranks)), us=r.choice([50, 500, 5000]))
        elif verb in ("attribute", "errors_return"):
            self.add(thread, verb, **{"from": comm})
        elif verb == "iprobe":
            self.add(thread, verb, comm=comm)

    def with_windows(self, thread: int, verb: str) -> None:
        names = [name for name, (owner, _) in self.model.windows.items() if owner == thread]
        if names:
            self.add(thread, verb, win=self.random.choice(names), kind=self.random.choice(["fence", "lock"]))

    def with_requests(self, thread: int, verb: str) -> None:
        names = self.some(self.requests_of(thread, None, True)) if verb == "wait" else self.some(self.requests_of(thread, True, False))
        if names and verb == "free_request":
            self.add(thread, verb, req=names[0])
        elif names:
            self.add(thread, verb, reqs=",".join(names))

    def step(self) -> None:
        thread = self.random.randrange(self.shape.threads)
        if all(comm.thread != thread for comm in self.model.comms.values()):
            return  # it has given all of its communicators away
        verb = self.random.choices(list(self.likes), list(self.likes.values()))[0]
        if self.shape.threads > 1 and (verb == "make" or verb in MAKES):
            self.add(-1, "meet")
            self.do(thread, verb)
            self.add(-1, "meet")
        else:
            self.do(thread, verb)

    def do(self, thread: int, verb: str) -> None:
        if verb in ("alltoall", "burst", "make", "meet"):
            getattr(self, verb)(thread)
        elif verb in ("epoch", "free_window"):
            self.with_windows(thread, verb)
        elif verb in ("wait", "start", "free_request"):
            self.with_requests(thread, verb)
        else:
            self.simple(thread, verb)

    def draw(self) -> list[Line]:
        for thread in range(1, self.shape.threads):
            for parent in ("world", "self"):
                name = self.fresh("c")
                self.add(0, "dup", **{"from": parent, "to": name})
                self.add(0, "give", comm=name, owner=thread)
        if self.shape.threads > 1:
            self.add(-1, "meet")
        for _ in range(self.shape.steps):
            self.step()
        return legal(self.lines, self.shape.threads)


def draw(seed: int, shape: Shape) -> list[Line]:
    """The program of a seed: the same on every machine."""
    return Drawing(seed, shape).draw()
