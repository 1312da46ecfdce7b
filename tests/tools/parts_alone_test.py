"""parts_alone_test.py CMAKE SOURCE BUILD ROOM...: each room of tests, and each preset of one product, configures without the rest, as BUILD
was configured, and tests/all builds what its tests run. What the sources of a product include by name is in a folder that they look in, and
libraries of ours that they link are built."""

import itertools
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

CMAKE, SOURCE, BUILD = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1))
ROOMS = [sys.argv.pop(1) for _ in sys.argv[1:]]
PRODUCTS = ("tapa", "dit")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def output_of(*command: str | pathlib.Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stderr}")
    return done.stdout


def configure(folder: pathlib.Path, options: dict[str, str]) -> None:
    cache = (BUILD / "CMakeCache.txt").read_text().split("\n")
    (folder / "CMakeCache.txt").write_text("\n".join(line for line in cache if not line.startswith("CMAKE_CACHEFILE_DIR")))
    output_of(CMAKE, *(f"-D{name}={value}" for name, value in options.items()), folder)


def options_of(preset: str) -> dict[str, str]:
    presets = json.loads((SOURCE / "CMakePresets.json").read_text())["configurePresets"]
    (chosen,) = (one for one in presets if one["name"] == preset)
    return {**chosen["cacheVariables"], "CMAKE_EXPORT_COMPILE_COMMANDS": "ON"}


def run_but_not_built(folder: pathlib.Path) -> list[str]:
    """Paths in the build folder that tests name, and that neither configuring nor tests/all makes."""
    built = "\n".join(["", *output_of("ninja", "-C", folder, "-t", "commands", "tests/all").split(), ""])
    named = {}  # commands that are not there are left out of JSON
    for file in folder.glob("tests/**/CTestTestfile.cmake"):
        named |= dict.fromkeys(re.findall(rf'{folder}/((?:bin|lib)/[^],:;=" ]+)', file.read_text()))
    return [path for path in named if not (folder / path).exists() and f"\n{path}\n" not in built and f"\n{path}/" not in built]


def folders_of(command: str) -> tuple[pathlib.Path, ...]:
    words = shlex.split(command)
    beside = (value for word, value in itertools.pairwise(words) if word in ("-I", "-isystem"))
    return tuple(pathlib.Path(text) for text in (*beside, *(word[2:] for word in words if re.match("-I.", word))))


def missing_includes(file: pathlib.Path, folders: tuple[pathlib.Path, ...], seen: set[pathlib.Path]) -> list[str]:
    found = []
    for name in INCLUDE.findall(file.read_text(errors="replace")):
        path = next((at for folder in (file.parent, *folders) if (at := folder / name).is_file()), None)
        if path is None:
            found.append(f"{file.relative_to(SOURCE)} includes {name}")
        elif path not in seen and SOURCE in path.parents:
            seen.add(path)
            found += missing_includes(path, folders, seen)
    return found


class PartsAlone(unittest.TestCase):
    def test_rooms(self) -> None:
        self.assertGreater(len(ROOMS), 0)
        for room in ROOMS:
            with self.subTest(room=room), tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                configure(folder, {"TAPA_TEST_ROOMS": room})
                self.assertEqual(run_but_not_built(folder), [])

    def test_products(self) -> None:
        for preset in PRODUCTS:
            with self.subTest(preset=preset), tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                configure(folder, options_of(preset))
                self.assertEqual(run_but_not_built(folder), [])
                compilations = json.loads((folder / "compile_commands.json").read_text())
                self.assertGreater(len(compilations), 100)
                missing = set()
                for one in compilations:
                    if SOURCE in (file := pathlib.Path(one["file"])).parents:
                        missing.update(missing_includes(file, folders_of(one["command"]), set()))
                # What is no target is the name of a library to CMake.
                rules = (folder / "build.ninja").read_text()
                missing.update(name for name in re.findall(r"-l((?:tapa|dit)_\w+)", rules) if f"lib{name}." not in rules)
                self.assertEqual(sorted(missing), [])


if __name__ == "__main__":
    unittest.main()
