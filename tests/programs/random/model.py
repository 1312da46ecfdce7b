"""What a program may do: the model takes a line and says whether it may stand there. So lines can be drawn without thought, and
left out again. Pure: starts nothing."""

from dataclasses import dataclass

from lines import Line

MAKING = ["dup", "idup", "split", "split_shared", "create", "create_group", "inter", "ring", "graph"]
# Lines in which MPI makes communicators, a window's too.
MAKES = {*MAKING, "churn", "window"}


@dataclass
class Comm:
    thread: int
    inter: bool = False
    ring: bool = False
    graph: bool = False
    errors_return: bool = False
    fixed: bool = False
    wildcards: bool = False  # it has had receives or probes that take any message,
    tagged: bool = False  # or communicators were made with a tag, for which Open MPI sends such messages
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
        self.seen: set[int] = set()  # threads that have had a line since they met
        self.making: int | None = None  # the one that has made a communicator since

    def pending(self, comm: str) -> list[Request]:
        return [r for r in self.requests.values() if r.comm == comm and (r.active or r.persistent)]

    def take(self, line: Line) -> bool:
        """Whether the line may stand here; if so, what it does has happened."""
        if line.thread == -1:
            if line.verb != "meet" or self.threads == 1:
                return False
            for comm in self.comms.values():
                comm.touched = comm.given = False
            self.seen.clear()
            self.making = None
            return True
        makes = self.threads > 1 and line.verb in MAKES
        # Open MPI makes the communicators of all threads in one order: threads that make some at once may wait for each other for
        # ever, and a thread whose first all-to-all sets its communicator up with them. So one makes while the others meet.
        if self.making not in (None, line.thread) or (makes and self.seen - {line.thread}):
            return False
        if not self.stands(line):
            return False
        self.seen.add(line.thread)
        if makes:
            self.making = line.thread
        return True

    def stands(self, line: Line) -> bool:
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
        return bool(comm) and self.add(line, inter=comm.inter, ring=comm.ring, graph=comm.graph)

    def _idup(self, line: Line) -> bool:
        comm = self.own(line, "from")
        if not comm or comm.inter or line.words["req"] in self.requests or line.words["to"] in self.comms:
            return False
        self.requests[line.words["req"]] = Request(line.thread, line.words["from"], "idup", makes=line.words["to"])
        return True

    def _split(self, line: Line) -> bool:
        return self.make(line)

    _split_shared = _create = _split

    def _create_group(self, line: Line) -> bool:
        comm = self.own(line, "from")
        if not comm or comm.wildcards or not self.make(line):
            return False
        comm.tagged = True
        return True

    def _inter(self, line: Line) -> bool:
        if not self._create_group(line):
            return False
        self.comms[line.words["to"]].inter = True
        return True

    def _merge(self, line: Line) -> bool:
        return self.make(line, inter=True)

    def _ring(self, line: Line) -> bool:
        return self.make(line, ring=True)

    def _graph(self, line: Line) -> bool:
        return self.make(line, graph=True)

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
        if line.words.get("along") and (line.words.get("in_place") or not comm.graph):
            return False
        if line.words["mode"] == "blocking":
            return True
        if line.words["req"] in self.requests:
            return False
        persistent = line.words["mode"] == "persistent"
        ragged = line.words["form"] == "v" and not line.words.get("along")
        self.requests[line.words["req"]] = Request(line.thread, line.words["comm"], "alltoall", ragged, persistent, not persistent)
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
        if not comm or comm.inter or comm.ring or comm.graph or comm.tagged or line.words["req"] in self.requests:
            return False
        comm.wildcards = True
        self.requests[line.words["req"]] = Request(line.thread, line.words["comm"], "messages")
        return True

    def _ring_of_messages(self, line: Line) -> bool:
        comm = self.own(line)
        if not comm or not comm.ring or comm.inter or comm.tagged:
            return False
        comm.wildcards = True
        return True

    def _iprobe(self, line: Line) -> bool:
        comm = self.own(line)
        if not comm or comm.inter or comm.tagged:
            return False
        comm.wildcards = True
        return True

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
