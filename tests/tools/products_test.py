"""products_test.py CMAKE SOURCE BUILD: the presets of one product configure, as BUILD was configured; what their sources include by
name is in a folder that they look in, and libraries of ours that they link are built."""

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
PRODUCTS = ("tapa", "dit")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def configured(preset: str, folder: pathlib.Path) -> list[dict[str, str]]:
    """The compilations of a preset."""
    of_build = (BUILD / "CMakeCache.txt").read_text().split("\n")
    kept = [line for line in of_build if not line.startswith("CMAKE_CACHEFILE_DIR")]
    (folder / "CMakeCache.txt").write_text("\n".join(kept))
    presets = json.loads((SOURCE / "CMakePresets.json").read_text())["configurePresets"]
    (chosen,) = (one for one in presets if one["name"] == preset)
    options = {**chosen["cacheVariables"], "CMAKE_EXPORT_COMPILE_COMMANDS": "ON"}
    done = subprocess.run([CMAKE, *(f"-D{name}={value}" for name, value in options.items()), folder], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads((folder / "compile_commands.json").read_text())


def folders_of(command: str) -> tuple[pathlib.Path, ...]:
    words = shlex.split(command)
    beside = (value for word, value in itertools.pairwise(words) if word in ("-I", "-isystem"))
    return tuple(pathlib.Path(text) for text in (*beside, *(word[2:] for word in words if re.match("-I.", word))))


class Products(unittest.TestCase):
    def missing(self, file: pathlib.Path, folders: tuple[pathlib.Path, ...], seen: set[pathlib.Path]) -> list[str]:
        found = []
        for name in INCLUDE.findall(file.read_text(errors="replace")):
            path = next((at for folder in (file.parent, *folders) if (at := folder / name).is_file()), None)
            if path is None:
                found.append(f"{file.relative_to(SOURCE)} includes {name}")
            elif path not in seen and SOURCE in path.parents:
                seen.add(path)
                found += self.missing(path, folders, seen)
        return found

    def test_sources_and_libraries_are_there(self) -> None:
        for preset in PRODUCTS:
            with self.subTest(preset=preset), tempfile.TemporaryDirectory() as folder:
                missing = set()
                compilations = configured(preset, pathlib.Path(folder))
                for one in compilations:
                    if SOURCE in (file := pathlib.Path(one["file"])).parents:
                        missing.update(self.missing(file, folders_of(one["command"]), set()))
                self.assertGreater(len(compilations), 100)
                # What is no target is the name of a library to CMake.
                rules = (pathlib.Path(folder) / "build.ninja").read_text()
                missing.update(name for name in re.findall(r"-l((?:tapa|dit)_\w+)", rules) if f"lib{name}." not in rules)
                self.assertEqual(sorted(missing), [])


if __name__ == "__main__":
    unittest.main()
