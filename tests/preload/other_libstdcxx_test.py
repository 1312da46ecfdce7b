#!/usr/bin/env python3
"""Programs that bring another libstdc++, as those of conda, Spack and vendors do: with the drop-in before them they start and
find what they need in their own, older or newer, linked or opened later; those with MPI are taken over as others are.
Usage: other_libstdcxx_test.py --cc CC --mpicc "COMMAND WITH OPTIONS" --launch "mpirun ... -n" --preload LIB --libraries LIB,..."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import ClassVar

parser = argparse.ArgumentParser()
for name in ("--cc", "--mpicc", "--launch", "--preload", "--libraries"):
    parser.add_argument(name, required=True)
OPTIONS = parser.parse_args()
del sys.argv[1:]

# Libraries with libstdc++'s name and symbol versions that the system's does not have, or not yet.
OLDER = ("older", "oldfn", 7, "GLIBCXX_3.4")
NEWER = ("newer", "newfn", 42, "GLIBCXX_3.4.99")

ASKS = "int {function}(void);\nint ask(void) {{ return {function}(); }}\n"

# Prints what its own library answers, then what each of its arguments does that can be asked.
PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
int ask(void);
int main(int argc, char** argv) {
  printf("%d\n", ask());
  for (int i = 1; i < argc; ++i) {
    void* library = dlopen(argv[i], RTLD_NOW);
    if (library == NULL) return printf("%s\n", dlerror()), 1;
    int (*other)(void) = (int (*)(void))dlsym(library, "ask_other");
    if (other != NULL) printf("%d\n", other());
  }
  return 0;
}
"""
OPENED = "int {function}(void);\nint ask_other(void) {{ return {function}(); }}\n"

MPI_PROGRAM = r"""
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
int ask(void);
int main(int argc, char** argv) {
  int sent[64] = {0}, got[64], wrong = 0, rank;
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;  /* in MPI_Init hwloc's plugins may load the system's */
  if (argc > 1 && library == NULL) printf("%s\n", dlerror());
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 64; ++i) sent[i] = 64 * rank + i;
  for (int call = 0; call < 20; ++call) {
    MPI_Alltoall(sent, 32, MPI_INT, got, 32, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < 64; ++i) wrong += got[i] != i / 32 * 64 + 32 * rank + i % 32;
  }
  printf("%d, %d wrong\n", ask(), wrong);
  MPI_Finalize();
  return library == NULL && argc > 1;
}
"""

# As Python.h lays it out, so that the test needs no package of headers.
EXTENSION = r"""
#include <stddef.h>
int newfn(void);
void* PyModule_Create2(void* definition, int version);
int PyModule_AddIntConstant(void* module, const char* name, long value);
static struct {
  ptrdiff_t references; void *type, *init; ptrdiff_t index; void* copy;
  const char *name, *doc; ptrdiff_t size; void *methods, *slots, *traverse, *clear, *free;
} definition = {1, NULL, NULL, 0, NULL, "extension", NULL, -1, NULL, NULL, NULL, NULL, NULL};
void* PyInit_extension(void) {
  void* module = PyModule_Create2(&definition, 1013);
  if (module != NULL) PyModule_AddIntConstant(module, "answer", newfn());
  return module;
}
"""


class OtherLibstdcxx(unittest.TestCase):
    folder: ClassVar[Path]

    @classmethod
    def build(cls, output: str, source: str, *options: str, compiler: str = OPTIONS.cc) -> Path:
        path = cls.folder / output
        (cls.folder / "source.c").write_text(source)
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}  # another MPI's, maybe
        command = [*compiler.split(), "-w", "-o", path, cls.folder / "source.c", *options, "-ldl"]
        subprocess.run(command, env=environment, check=True)
        return path

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        shared = ("-shared", "-fPIC")
        cls.programs = {}
        cls.mpi_programs = {}
        for kind, function, answer, version in (OLDER, NEWER):
            (cls.folder / kind).mkdir()
            (cls.folder / "map").write_text(f"{version} {{ global: {function}; local: *; }};\n")
            own = cls.build(f"{kind}/libstdc++.so.6", f"int {function}(void) {{ return {answer}; }}\n", *shared,
                            "-Wl,-soname,libstdc++.so.6", f"-Wl,--version-script={cls.folder}/map")  # fmt: skip
            # RPATH: what a program brings so, all libraries of its process find first.
            brings = (str(own), "-Wl,--disable-new-dtags", f"-Wl,-rpath,{cls.folder}/{kind}")
            cls.programs[kind] = cls.build(f"{kind}/program", PROGRAM + ASKS.format(function=function), *brings)
            cls.mpi_programs[kind] = cls.build(f"{kind}/mpi", MPI_PROGRAM + ASKS.format(function=function), *brings,
                                               compiler=OPTIONS.mpicc)  # fmt: skip
            if kind == "newer":
                cls.opened = cls.build("opened.so", OPENED.format(function=function), *shared, *brings)
                cls.extension = cls.build("newer/extension.so", EXTENSION, *shared, *brings)
        plain = "int ask(void) { return 1; }\n"
        cls.programs["none"] = cls.build("program", PROGRAM + plain)
        cls.mpi_programs["none"] = cls.build("mpi", MPI_PROGRAM + plain, compiler=OPTIONS.mpicc)

    def run_in(self, environment: dict[str, str], *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in command], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False
        )

    def prints(self, expected: list[int], *command: str | Path, **environment: str) -> None:
        """Whatever the drop-in is told, and without it."""
        dropped_in = {"LD_PRELOAD": OPTIONS.preload}
        for added in ({}, dropped_in, {**dropped_in, "TAPA_ENABLE": "0"}):
            done = self.run_in({**environment, **added}, *command)
            with self.subTest(command=command, **added):
                self.assertEqual((done.stdout.split(), done.stderr, done.returncode), ([str(word) for word in expected], "", 0))

    def test_programs_start_with_their_own(self) -> None:
        for kind, _, answer, _ in (OLDER, NEWER):
            self.prints([answer], self.programs[kind])

    def test_a_newer_one_is_opened_later(self) -> None:
        self.prints([1, NEWER[2]], self.programs["none"], self.opened)

    def test_python_imports_what_needs_its_own(self) -> None:
        tree = self.folder / "newer"
        (tree / "bin").mkdir()
        shutil.copy(os.path.realpath(sys.executable), tree / "bin/python3")
        home = {"PYTHONHOME": f"{sys.base_prefix}:{sys.base_exec_prefix}", "PYTHONPATH": str(tree)}
        command = (tree / "bin/python3", "-c", "import extension; print(extension.answer)")
        if self.run_in(home, *command).returncode != 0:
            self.skipTest(f"a copy of {sys.executable} cannot be run")
        self.prints([NEWER[2]], *command, **home)

    def test_our_libraries_are_opened_beside_another_one(self) -> None:
        ours = OPTIONS.libraries.split(",")
        self.prints([OLDER[2]], self.programs["older"], *ours)
        self.prints([NEWER[2]], self.programs["newer"], *ours)
        self.prints([1, NEWER[2]], self.programs["none"], *ours, self.opened)

    def test_mpi_programs_are_taken_over(self) -> None:
        for program, arguments, answer, enable in (
            (self.mpi_programs["older"], (), OLDER[2], "1"),
            (self.mpi_programs["older"], (), OLDER[2], "0"),
            (self.mpi_programs["newer"], (), NEWER[2], "1"),
            (self.mpi_programs["none"], (self.opened,), 1, "1"),
        ):
            launch = (*OPTIONS.launch.split(), "2", "env", f"LD_PRELOAD={OPTIONS.preload}")
            done = self.run_in({"TAPA_REPORT": "1", "TAPA_PLAN": "memory", "TAPA_ENABLE": enable}, *launch, program, *arguments)
            with self.subTest(program=program, arguments=arguments, enable=enable):
                self.assertEqual((done.stdout.splitlines(), done.returncode), ([f"{answer}, 0 wrong"] * 2, 0), done.stderr)
                self.assertEqual("taken       20 (100.0 %)" in done.stderr, enable == "1", done.stderr)


if __name__ == "__main__":
    unittest.main()
