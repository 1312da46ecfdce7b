"""The standard library comes before libtorch among the libraries that a program asks for: libtorch for Python exports a
std::filesystem of its own, half of it, and std::filesystem::remove_all of that calls what is not there."""

import re
import subprocess
import sys
import unittest

READELF, PROGRAM = sys.argv.pop(1), sys.argv.pop(1)


class LinkOrder(unittest.TestCase):
    def test_the_standard_library_comes_first(self) -> None:
        text = subprocess.run([READELF, "-d", PROGRAM], capture_output=True, text=True, check=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
        standard = [i for i, name in enumerate(needed) if name.startswith("libstdc++.so")]
        torch = [i for i, name in enumerate(needed) if re.match(r"lib(torch|c10)", name)]
        self.assertTrue(torch, needed)
        if not standard:
            symbols = subprocess.run([READELF, "--dyn-syms", "-W", PROGRAM], capture_output=True, text=True, check=True).stdout
            self.assertEqual(re.findall(r" UND (_ZNK?St10filesystem\S*)", symbols), [])
            self.skipTest("this compiler links its standard library into programs")
        self.assertLess(standard[0], torch[0], needed)


if __name__ == "__main__":
    unittest.main()
