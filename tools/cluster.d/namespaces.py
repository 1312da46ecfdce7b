"""Processes in new Linux namespaces (Python's own os.unshare is younger than Debian 12's Python)."""

import ctypes
import json
import os
import signal
from collections.abc import Callable, Iterable
from typing import Any

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
MACHINE = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x8, 0x1000, 0x4000, 0x40000

NEEDS = (
    "namespaces are not allowed here: needed is root with CAP_SYS_ADMIN and CAP_NET_ADMIN (in a container: --privileged), "
    "or user namespaces (sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000; "
    "on Ubuntu also kernel.apparmor_restrict_unprivileged_userns=0)"
)

_libc = ctypes.CDLL(None, use_errno=True)


class NamespaceError(Exception):
    """A namespace, or something in one, could not be set up."""


def _check(result: int, what: str) -> None:
    if result != 0:
        raise NamespaceError(f"{what}: {os.strerror(ctypes.get_errno())}")


def _unshare(own_user: bool) -> None:
    """Leaves the caller's namespaces; own_user makes the caller root of a new user namespace first."""
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(MACHINE | (CLONE_NEWUSER if own_user else 0)) != 0:
        raise NamespaceError(f"{NEEDS} (unshare: {os.strerror(ctypes.get_errno())})")
    if own_user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def mount(source: str, target: str, kind: str | None = None, flags: int = 0) -> None:
    """mount(2)."""
    encoded = [text.encode() if text else None for text in (source, target, kind)]
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), None), f"mount {kind or 'bind'} on {target}")


def become_host(name: str, hosts_file: str) -> None:
    """Gives the calling process 1 its own host name, /proc, /sys, /dev/shm and /etc/hosts."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV)
    mount(hosts_file, "/etc/hosts", None, MS_BIND)
    encoded = name.encode()
    _check(_libc.sethostname(encoded, len(encoded)), f"sethostname {name}")


def _init(
    setup: Callable[[], object], hold: Callable[[], bool], argv: list[str], stdin: int | None, tell: Callable[[dict[str, object]], None]
) -> None:
    """Process 1: sets up, tells the result, waits in hold, then lives on as argv."""
    try:
        answer = {"ok": setup()}
    except Exception as error:  # whatever went wrong has to reach the process that asked
        answer = {"error": str(error)}
    tell(answer)
    if "error" in answer or not hold():
        os._exit(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd, source in ((0, null if stdin is None else stdin), (1, null), (2, null)):
        os.dup2(source, fd)
    # Process 1 inherits the orphans of its namespace: an ignored SIGCHLD lets the kernel reap them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.execvp(argv[0], argv[1:])


def spawn(
    setup: Callable[[], object],
    argv: list[str],
    own_user: bool = False,
    hold: Callable[[], bool] = lambda: True,
    stdin: int | None = None,
    close: Iterable[int] = (),
) -> tuple[int, Any]:
    """Starts process 1 of new namespaces and waits until setup() has returned there.

    setup  runs in the new process; its result (JSON) is handed back, an exception becomes a NamespaceError
    argv   what the process turns into: file, then arguments from argv[0] on
    hold   runs after setup's result was handed back; the process ends when it returns False
    stdin  descriptor that becomes the standard input (default /dev/null)
    close  descriptors that the new process must not keep
    Returns (pid as seen by the caller, setup's result).
    """
    read_end, write_end = os.pipe()

    def tell(message: dict[str, object]) -> None:
        os.write(write_end, (json.dumps(message) + "\n").encode())

    middle = os.fork()
    if middle == 0:
        try:
            os.close(read_end)
            for fd in close:
                os.close(fd)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            _unshare(own_user)
            pid = os.fork()
            if pid == 0:
                _init(setup, hold, argv, stdin, tell)
            tell({"pid": pid})
        except BaseException as error:
            tell({"error": str(error)})
        finally:
            os._exit(0)
    os.close(write_end)
    os.waitpid(middle, 0)
    answer = {}
    with os.fdopen(read_end) as channel:
        while "error" not in answer and not {"pid", "ok"} <= answer.keys():
            line = channel.readline()
            if not line:
                raise NamespaceError("the new process ended before it was set up")
            answer.update(json.loads(line))
    if "error" in answer:
        raise NamespaceError(answer["error"])
    return answer["pid"], answer["ok"]


def _status(pid: int | str) -> dict[str, str]:
    try:
        with open(f"/proc/{pid}/status") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    except OSError:
        return {}


def children(pid: int) -> dict[int, int]:
    """{pid as the parent's namespace knows it: pid here} of the direct children of a process."""
    level = len(_status(pid).get("NSpid", "").split()) - 1
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            status = _status(entry)
            if status.get("PPid") == str(pid):
                found[int(status["NSpid"].split()[level])] = int(entry)
    return found


def start_time(pid: int) -> int | None:
    """Start of a process in clock ticks after boot, None when there is none: tells a reused pid from the recorded one."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
