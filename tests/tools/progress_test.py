"""progress_test.py PROGRAM...: long work tells on a terminal how far it is, on standard error, and takes the line away; elsewhere it
writes nothing there. Programs that are not in the build are left out."""

import os
import pty
import subprocess
import sys

COMMANDS = {
    "tapa-sim": (["aurora", "--nodes", "1", "--bytes", "8", "--plans", "choice", "--rivals", ""], " of 1 exchanges"),
    "dit": (["profile", "--steps", "2", "--size", "32"], "dit profile 1/2 ["),
}


def said_on_terminal(command: list[str]) -> tuple[int, str]:
    leader, follower = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=follower) as process:
        os.close(follower)
        said = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:  # Linux: all writers are gone
                break
            if not part:
                break
            said += part
    os.close(leader)
    return process.returncode, said.decode(errors="replace")


def main(programs: list[str]) -> int:
    failed = 0
    tried = [program for program in programs if os.path.exists(program)]
    for program in tried:
        words, expected = COMMANDS[os.path.basename(program)]
        code, said = said_on_terminal([program, *words])
        if code != 0 or expected not in said or not said.endswith("\r\x1b[K"):
            print(f"{program}: status {code}, on a terminal it said {said!r}, expected {expected!r} and an erased line")
            failed = 1
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
        if done.returncode != 0 or done.stderr:
            print(f"{program}: status {done.returncode}, without a terminal it said {done.stderr!r}")
            failed = 1
    if not tried:
        print("skipped: none of these programs is in the build")
        return 77
    return failed


sys.exit(main(sys.argv[1:]))
