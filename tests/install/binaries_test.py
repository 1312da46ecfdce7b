#!/usr/bin/env python3
"""Every program and library of a tree is what a distribution would ship: looks for libraries in no folder of the caller's,
exports what it should only, and leaves an attacker no fixed addresses, no tables to write to and no overflow unnoticed.
Usage: binaries_test.py [--unfortified] [--shared-libstdcxx] FOLDER... (without optimisation and with sanitizers calls of the C
library are not checked; with sanitizers, or where there is no static one, libraries share the libstdc++ of their process)"""

import os
import re
import subprocess
import sys
import unittest
from collections.abc import Iterable, Iterator
from pathlib import Path

UNFORTIFIED = "--unfortified" in sys.argv
SHARED_LIBSTDCXX = "--shared-libstdcxx" in sys.argv
FOLDERS = [Path(word) for word in sys.argv[1:] if not word.startswith("-")]
del sys.argv[1:]

# What the compiler replaces by a checked form wherever it is called (memcpy only where it knows how much room there is,
# snprintf only where it cannot see that there is enough).
ALWAYS_CHECKED = {"printf", "fprintf", "dprintf", "vprintf", "vfprintf"}

# What a library may export: each of ours has an entry.
EXPORTS = {
    r"libtapa\.so.*": r"TAPA_\w+",
    r"libdit\.so.*": r"dit_\w+",
    r"libdit-exchange-\w+\.so": r"dit_exchange_plugin_v1",
    r"libtapa_preload\.so": r"P?MPIX?_\w+",
    r"libdit_torch\.so": r"dit_\w+",
    r"platform\.so": r"load_platform|tapa_sim_world",  # what SimGrid and ranks.so look up
    r"ranks\.so": r"main",
}


# Those that are loaded by libtorch, which is linked with the libstdc++ of its process, and by our own simulator only.
SHARE_LIBSTDCXX = r"libdit_torch\.so|platform\.so|ranks\.so"


def is_binary(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def binaries() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*")):
            if path.is_symlink() or not path.is_file() or path.suffix in (".o", ".a"):
                continue
            if not {"tests", "fuzz"} & set(path.relative_to(folder).parts) and is_binary(path):
                yield path  # helpers of tests are not shipped


def readelf(path: Path, *options: str) -> str:
    return subprocess.run(["readelf", "-W", *options, path], capture_output=True, text=True, check=True).stdout


def is_library(path: Path) -> bool:
    """Programs, also those that lie anywhere, name who loads them."""
    return "INTERP" not in readelf(path, "-l")


def runpath(path: Path) -> list[str]:
    found = re.search(r"\(R(?:UN)?PATH\).*\[(.*)\]", readelf(path, "-d"))
    return found.group(1).split(":") if found else []


def needed(path: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", readelf(path, "-d"))


def imported(path: Path) -> set[str]:
    lines = [line.split() for line in readelf(path, "--dyn-syms").splitlines()]
    return {words[7].split("@")[0] for words in lines if len(words) >= 8 and words[6] == "UND"}


def exported(path: Path) -> list[str]:
    """Defined symbols that others can bind to; weak ones of templates too."""
    names = []
    for line in readelf(path, "--dyn-syms").splitlines():
        words = line.split()
        if len(words) >= 8 and words[4] in ("GLOBAL", "WEAK", "UNIQUE") and words[6] != "UND" and words[3] != "NOTYPE":
            names.append(words[7].split("@")[0])
    return names


class Binaries(unittest.TestCase):
    def setUp(self) -> None:
        self.all = list(binaries())
        self.assertGreater(len(self.all), 2, f"nothing to look at in {FOLDERS}")

    def none(self, complaints: Iterable[tuple[Path, object]]) -> None:
        self.assertEqual([f"{path}: {what}" for path, what in complaints], [])

    def test_no_library_is_looked_for_where_the_caller_is(self) -> None:
        self.none(
            (path, f'element "{element}" of RUNPATH')
            for path in self.all
            for element in runpath(path)
            if not re.match(r"(/|\$ORIGIN(/|$))", element)
        )

    def test_symbols_are_exported_by_list_only(self) -> None:
        listed = [path for path in self.all if any(re.fullmatch(library, path.name) for library in EXPORTS)]
        self.none((path, "a library without an entry in EXPORTS") for path in self.all if is_library(path) and path not in listed)
        libraries = [(path, names) for path in self.all for library, names in EXPORTS.items() if re.fullmatch(library, path.name)]
        self.assertTrue(libraries, "no library of ours")
        self.none((path, "exports nothing") for path, _ in libraries if not exported(path))
        self.none((path, f"exports {name}") for path, names in libraries for name in exported(path) if not re.fullmatch(names, name))

    def test_libraries_that_mpi_may_bring_are_not_linked(self) -> None:
        """MPI libraries bring other versions of these, and a process has one of each name."""
        self.none((path, f"linked with {name}") for path in self.all for name in needed(path) if re.match(r"lib(hwloc|fabric)\.so", name))

    @unittest.skipIf(SHARED_LIBSTDCXX, "built so")
    def test_libraries_do_not_choose_a_processs_libstdcxx(self) -> None:
        own = [path for path in self.all if is_library(path) and not re.fullmatch(SHARE_LIBSTDCXX, path.name)]
        self.assertTrue(own, "no library of ours")
        self.none((path, f"linked with {name}") for path in own for name in needed(path) if re.match(r"lib(stdc\+\+|gcc_s)\.", name))

    def test_stacks_are_not_executable(self) -> None:
        self.none(
            (path, "its stack is executable, or not said not to be")
            for path in self.all
            if not re.search(r"GNU_STACK.* RW ", readelf(path, "-l"))
        )

    def test_programs_lie_anywhere_and_tables_are_read_only(self) -> None:
        self.none((path, "expected -pie") for path in self.all if not re.search(r"Type:\s+DYN", readelf(path, "-h")))
        self.none((path, "expected -z relro") for path in self.all if "GNU_RELRO" not in readelf(path, "-l"))
        self.none((path, "expected -z now") for path in self.all if not re.search(r"BIND_NOW|FLAGS_1.*\bNOW\b", readelf(path, "-d")))

    def test_what_writes_past_a_stack_array_is_stopped(self) -> None:
        self.none((path, "expected -fstack-protector-strong") for path in self.all if "__stack_chk_fail" not in imported(path))

    @unittest.skipIf(UNFORTIFIED, "built without")
    def test_calls_of_the_c_library_are_checked(self) -> None:
        # CUDA's runtime, linked statically, is built as its maker likes.
        ours = [path for path in self.all if ".nv_fatbin" not in readelf(path, "-S")]
        self.none(
            (path, f"expected -D_FORTIFY_SOURCE=2, calls {name}") for path in ours for name in sorted(ALWAYS_CHECKED & imported(path))
        )
        checked = {name for path in self.all for name in imported(path) if re.fullmatch(r"__\w+_chk", name)}
        self.assertIn("__memcpy_chk", checked, "no binary checks any call")


if __name__ == "__main__":
    if subprocess.run(["which", "readelf"], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        print("skipped: install binutils")
        sys.exit(77)
    os.environ["LC_ALL"] = "C"
    unittest.main()
