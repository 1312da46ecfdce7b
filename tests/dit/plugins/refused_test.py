"""refused_test.py REFUSED PLAIN -- COMMAND...: an exchange where the kernel refuses a system call.

Each of the calls that REFUSED knows is refused, with EPERM and with ENOSYS, to COMMAND (in which "{}" stands for the refusal, before
the program). It ends with its checks passed, or with an error in words: not by a signal, not by waiting for ever. What ends PLAIN,
a program of the same launcher without an exchange, in the same way is not ours. Without ATTACK_SECONDS the first calls of SHORT
are refused, with it calls at random for so long."""

import contextlib
import errno
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

SHORT = [("clone3", errno.EPERM)]
LIMIT = 60 * float(os.environ.get("TIMEOUT_FACTOR", "1"))
REFUSED, PLAIN = sys.argv[1:3]
COMMAND = sys.argv[sys.argv.index("--") + 1 :]


def run(command: list[str], refusal: list[str]) -> tuple[int | None, str]:
    """Status, None for a time limit that has passed, and what it said."""
    words = list(itertools.chain.from_iterable(refusal if word == "{}" else [word] for word in command))
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          start_new_session=True) as process:  # fmt: skip
        try:
            said = process.communicate(timeout=LIMIT)[0]
            return process.returncode, said
        except subprocess.TimeoutExpired:
            process.terminate()  # a launcher ends its ranks, which are in groups of their own
            with contextlib.suppress(subprocess.TimeoutExpired):
                return None, process.communicate(timeout=LIMIT / 6)[0]
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]


def fault_of(status: int | None, said: str) -> str:
    if status is None:
        return "does not end"
    if status < 0 or status >= 128 or "signal" in said.lower():
        return f"ends by a signal ({status})"
    return "ends without words" if status != 0 and not said.strip() else ""


def refusals() -> Iterator[tuple[str, int]]:
    seconds = float(os.environ.get("ATTACK_SECONDS", "0"))
    if seconds == 0:
        yield from SHORT
        return
    until = time.monotonic() + seconds
    calls = subprocess.run([REFUSED, "--list"], capture_output=True, text=True, check=True).stdout.split()
    all_ = list(itertools.product(calls, (errno.EPERM, errno.ENOSYS)))
    random.shuffle(all_)
    for refusal in all_:
        if time.monotonic() > until:
            return
        yield refusal


def main() -> int:
    failed = tried = 0
    for call, error in refusals():
        tried += 1
        refusal = [REFUSED, call, str(error)]
        status, said = run(COMMAND, refusal)
        wrong = fault_of(status, said)
        plain = [PLAIN if word == COMMAND[COMMAND.index("{}") + 1] else word for word in COMMAND]
        if wrong and fault_of(*run(plain[: COMMAND.index("{}") + 2], refusal)):
            wrong, said = "", f"as without an exchange: {wrong}"
        print(f"{'FAILED' if wrong else 'ok'}: {call} refused with {errno.errorcode[error]}: {wrong or status}", flush=True)
        if wrong:
            failed += 1
            print("\n".join(said.splitlines()[-15:]), flush=True)
    print(f"{tried} refusals, {failed} failed")
    return 1 if failed or not tried else 0


sys.exit(main())
