"""MPI programs at random, as text for random_program: drawn from a seed, kept legal, made smaller. Pure: starts nothing.

A program is a list of lines. `Model` knows what is legal: it takes a line and says whether it may stand there. So lines can
be drawn without thought, and left out again."""

import random
from dataclasses import dataclass, field

KINDS = ["barrier", "bcast", "allreduce", "reduce", "scan", "gather", "scatter", "allgather", "reduce_scatter"]
WRONG = ["count", "recvcount", "type", "recvtype", "icount", "itype", "vtype", "vnull", "wnull"]
MAKING = ["dup", "idup", "split", "split_shared", "create", "create_group", "inter", "ring"]
MOST_COMMS = 9
MOST_REQUESTS = 12


@dataclass
class Line:
    number: int
    thread: int  # -1: all
    verb: str
    words: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([str(self.number), str(self.thread), self.verb, *(f"{k}={v}" for k, v in self.words.items())])

    def listed(self, name: str) -> list[str]:
        return [item for item in self.words.get(name, "").split(",") if item]


def read_line(text: str) -> Line:
    number, thread, verb, *words = text.split()
    return Line(int(number), int(thread), verb, dict(word.split("=", 1) for word in words))


@dataclass
class Comm:
    thread: int
    inter: bool = False
    ring: bool = False
    errors_return: bool = False
    fixed: bool = False
    touched: bool = True  # since the threads have met
    given: bool = False  # and the new one may not use it before they meet again


@dataclass
class Request:
    thread: int
    comm: str
    kind: str  # "alltoall", "messages", "icollective", "idup"
    ragged: bool = False
    persistent: bool = False
    active: bool = True
    makes: str = ""


class Model:
    """What a program has made so far. Legal is what MPI allows, less what Open MPI 4.1 gets wrong by itself."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.comms = {"world": Comm(0, fixed=True), "self": Comm(0, fixed=True)}
        self.requests: dict[str, Request] = {}
        self.windows: dict[str, tuple[int, str]] = {}

    def pending(self, comm: str) -> list[Request]:
        return [r for r in self.requests.values() if r.comm == comm and (r.active or r.persistent)]

    def take(self, line: Line) -> bool:
        """Whether the line may stand here; if so, what it does has happened."""
        if line.thread == -1:
            if line.verb != "meet" or self.threads == 1:
                return False
            for comm in self.comms.values():
                comm.touched = comm.given = False
            return True
        # Open MPI 4.1 may hang where anything but waiting is done while MPI_Comm_idup is under way.
        if line.verb not in ("wait", "late", "iprobe") and any(r.makes for r in self.requests.values()):
            return False
        if line.verb == "idup" and self.threads > 1:
            return False
        return line.thread < self.threads and getattr(self, "_" + line.verb)(line)

    def own(self, line: Line, word: str = "comm") -> Comm | None:
        comm = self.comms.get(line.words.get(word, ""))
        if not comm or comm.thread != line.thread or comm.given:
            return None
        comm.touched = True
        return comm

    def add(self, line: Line, **settings: bool) -> bool:
        parent = self.comms[line.words["from"]]
        if line.words["to"] in self.comms:
            return False
        self.comms[line.words["to"]] = Comm(line.thread, errors_return=parent.errors_return, **settings)
        return True

    def make(self, line: Line, inter: bool = False, **settings: bool) -> bool:
        comm = self.own(line, "from")
        return bool(comm) and comm.inter == inter and self.add(line, **settings)

    def _dup(self, line: Line) -> bool:
        comm = self.own(line, "from")
        return bool(comm) and self.add(line, inter=comm.inter, ring=comm.ring)

    def _idup(self, line: Line) -> bool:
        comm = self.own(line, "from")
        if not comm or comm.inter or line.words["req"] in self.requests or line.words["to"] in self.comms:
            return False
        self.requests[line.words["req"]] = Request(line.thread, line.words["from"], "idup", makes=line.words["to"])
        return True

    def _split(self, line: Line) -> bool:
        return self.make(line)

    _split_shared = _create = _create_group = _split

    def _inter(self, line: Line) -> bool:
        return self.make(line, inter=False) and self._is_inter(line)

    def _is_inter(self, line: Line) -> bool:
        self.comms[line.words["to"]].inter = True
        return True

    def _merge(self, line: Line) -> bool:
        return self.make(line, inter=True)

    def _ring(self, line: Line) -> bool:
        return self.make(line, ring=True)

    def _free(self, line: Line) -> bool:
        comm = self.own(line)
        name = line.words["comm"]
        if not comm or comm.fixed or any(c == name for _, c in self.windows.values()):
            return False
        # MPI_Ialltoallv may be under way; with others Open MPI crashes. Disconnecting waits, so nothing may be.
        if comm.inter and self.pending(name):
            return False
        if any(not r.ragged or r.persistent or line.words.get("how") == "disconnect" for r in self.pending(name)):
            return False
        del self.comms[name]
        return True

    def _attribute(self, line: Line) -> bool:
        return bool(self.own(line, "from"))

    def _errors_return(self, line: Line) -> bool:
        comm = self.own(line, "from")
        if not comm or comm.fixed:
            return False
        comm.errors_return = True
        return True

    def _alltoall(self, line: Line) -> bool:
        comm = self.own(line)
        if not comm or (comm.inter and (line.words.get("in_place") or line.words["mode"] == "persistent")):
            return False
        if line.words.get("in_place") and line.words["mode"] != "blocking" and line.words["form"] != "u":
            return False  # Open MPI's hang, or report messages that are cut off
        if line.words["mode"] == "blocking":
            return True
        if line.words["req"] in self.requests:
            return False
        persistent = line.words["mode"] == "persistent"
        self.requests[line.words["req"]] = Request(
            line.thread, line.words["comm"], "alltoall", line.words["form"] == "v", persistent, not persistent
        )
        return True

    def _bad(self, line: Line) -> bool:
        comm = self.own(line)
        return bool(comm) and comm.errors_return and not comm.inter

    def _churn(self, line: Line) -> bool:
        comm = self.own(line)
        return bool(comm) and not comm.inter

    def _collective(self, line: Line) -> bool:
        comm = self.own(line)
        if not comm or (comm.inter and line.words["kind"] != "barrier"):
            return False
        return line.words["kind"] != "neighbor" or comm.ring

    def _icollective(self, line: Line) -> bool:
        comm = self.own(line)
        if not comm or comm.inter or line.words["req"] in self.requests:
            return False
        self.requests[line.words["req"]] = Request(line.thread, line.words["comm"], "icollective")
        return True

    def _messages(self, line: Line) -> bool:
        comm = self.own(line)
        if not comm or comm.inter or comm.ring or line.words["req"] in self.requests:
            return False
        self.requests[line.words["req"]] = Request(line.thread, line.words["comm"], "messages")
        return True

    def _ring_of_messages(self, line: Line) -> bool:
        comm = self.own(line)
        return bool(comm) and comm.ring and not comm.inter

    def _iprobe(self, line: Line) -> bool:
        comm = self.own(line)
        return bool(comm) and not comm.inter

    def _window(self, line: Line) -> bool:
        comm = self.own(line)
        if not comm or comm.inter or line.words["win"] in self.windows:
            return False
        self.windows[line.words["win"]] = (line.thread, line.words["comm"])
        return True

    def _epoch(self, line: Line) -> bool:
        return self.windows.get(line.words["win"], (None,))[0] == line.thread

    def _free_window(self, line: Line) -> bool:
        if not self._epoch(line):
            return False
        del self.windows[line.words["win"]]
        return True

    def _wait(self, line: Line) -> bool:
        named = [self.requests.get(name) for name in line.listed("reqs")]
        if not named or any(r is None or r.thread != line.thread or not r.active for r in named):
            return False
        for name in line.listed("reqs"):
            request = self.requests[name]
            request.active = False
            if request.makes:
                parent = self.comms.get(request.comm)
                self.comms[request.makes] = Comm(line.thread, errors_return=bool(parent and parent.errors_return))
            if not request.persistent:
                del self.requests[name]
        return True

    def _start(self, line: Line) -> bool:
        named = [self.requests.get(name) for name in line.listed("reqs")]
        if not named or any(r is None or r.thread != line.thread or r.active or not r.persistent for r in named):
            return False
        for request in named:
            request.active = True
        return True

    def _free_request(self, line: Line) -> bool:
        request = self.requests.get(line.words["req"])
        if not request or request.thread != line.thread or request.active or not request.persistent:
            return False
        del self.requests[line.words["req"]]
        return True

    def _late(self, _line: Line) -> bool:
        return True

    def _give(self, line: Line) -> bool:
        """Another thread may use the communicator from now on."""
        name = line.words["comm"]
        comm = self.comms.get(name)
        if not comm or comm.fixed or self.pending(name) or any(c == name for _, c in self.windows.values()):
            return False
        comm.given = comm.given or comm.touched
        comm.thread = int(line.words["owner"])
        return True


@dataclass(frozen=True)
class Shape:
    """What a program is for."""

    ranks: int
    threads: int = 1
    layouts: bool = False
    one_sided: bool = True
    steps: int = 120
    patient: bool = False  # some calls are made until a communicator's set-up pays


def legal(lines: list[Line], threads: int) -> list[Line]:
    """The lines that may stand one after the other, and what is needed so that the program can end."""
    model = Model(threads)
    kept = [line for line in lines if model.take(line)]
    number = max((line.number for line in lines), default=0)
    for thread in range(threads):
        names = [n for n, r in model.requests.items() if r.active and r.thread == thread]
        if names:
            number += 1
            kept.append(Line(number, thread, "wait", {"reqs": ",".join(names)}))
    for name, (thread, _) in list(model.windows.items()):
        number += 1
        kept.append(Line(number, thread, "free_window", {"win": name}))
    return kept


def text_of(lines: list[Line], shape: Shape, seed: int) -> str:
    head = f"program ranks={shape.ranks} threads={shape.threads} seed={seed}" + (" layouts=1" if shape.layouts else "")
    return "\n".join([head, *map(str, lines)]) + "\n"


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
        words["length"] = r.choices(["small", "medium", "long"], [14, 3, 1])[0]
        if r.random() < self.plain:
            words["plain"] = 1
        if r.random() < 0.15:
            words["in_place"] = 1
        if mode == "blocking" and words["length"] == "small" and r.random() < 0.3:
            words["repeat"] = r.randint(2, self.most_repeats)
        if mode == "blocking" and words["length"] == "small" and self.long_rows > 0 and r.random() < 0.2:
            self.long_rows -= 1
            words |= {"repeat": r.choice([10000, 30000]), "plain": 1, "form": r.choice("uuuv")}
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
        verb = r.choices(MAKING, [3, 1, 4, 1, 2, 2, 2, 1])[0]
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
            self.add(thread, verb, comm=comm, kind=r.choice(["create", "allocate", "shared"]), win=self.fresh("w"))
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
        if verb == "wait":
            names = self.some(self.requests_of(thread, None, True))
        else:
            names = self.some(self.requests_of(thread, True, False))
        if names and verb == "free_request":
            self.add(thread, verb, req=names[0])
        elif names:
            self.add(thread, verb, reqs=",".join(names))

    def step(self) -> None:
        thread = self.random.randrange(self.shape.threads)
        if all(comm.thread != thread for comm in self.model.comms.values()):
            return  # it has given all of its communicators away
        verb = self.random.choices(list(self.likes), list(self.likes.values()))[0]
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


def smaller(lines: list[Line], threads: int, fails, most_tries: int = 60) -> list[Line]:
    """Leaves out what the failure does not need. `fails(lines)`: whether a program still fails."""
    tries = 0
    piece = max(1, len(lines) // 2)
    while piece >= 1 and tries < most_tries:
        at, found = 0, False
        while at < len(lines) and tries < most_tries:
            candidate = legal(lines[:at] + lines[at + piece :], threads)
            tries += 1
            if len(candidate) < len(lines) and fails(candidate):
                lines, found = candidate, True
            else:
                at += piece
        if not found or piece > 1:
            if piece == 1:
                break
            piece //= 2
    return lines
