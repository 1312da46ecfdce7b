"""reference_test.py SOURCE BIN CLUSTER [--write]: docs/reference.md has every option of the programs below as --help says it, every
environment variable that the sources name, every setting that exchange plugins read, and every option of the build; --write makes the
page anew (target `reference`)."""

import difflib
import os
import re
import subprocess
import sys

PROGRAMS = {
    "Programs of libtapa": ["tapa-info", "tapa-plan", "tapa-tune", "tapa-sim"],
    "Benchmarks": ["tapa_alltoall", "tapa_alltoallv", "tapa_alltoallw", "tapa_ialltoall", "tapa_alltoall_persistent",
                   "tapa_alltoall_select"],
    "Programs of libdit": ["dit_exchange", "dit generate", "dit bench", "dit plan", "dit sim", "dit profile", "dit check", "dit compare",
                           "dit inspect", "dit-conformance"],
    "Emulated cluster": ["cluster up", "cluster run"],
}  # fmt: skip

# Variables that are no options of libtapa: what they are for. Those of the tests are not users'.
OTHERS = {
    "DIT_PLUGIN_PATH": "folders, separated by `:`, where exchange plugins are looked up before all others",
    "DIT_THREADS": "compute threads of each rank of libdit's engine; default: its share of the cores",
    "DIT_TORCH_LIBRARY": "path of `libdit_torch.so` for the Python package `dit_torch`; default: the one installed with it",
    "TAPA_BUILD": "`tools/cluster`, `tools/preload-path`: build tree to take programs from, a preset or a folder",
    "TAPA_DEVICE_NODE": "device engine: a name for this node; ranks with the same name share it (default: the machine's boot id)",
    "TAPA_GPU_PEERS": "device engine: 0: GPUs of one host are taken not to reach each other, as where cards refuse peer access, which "
    "is found out by itself; memory of the host joins them; group:NAME: only ranks of the same name do, for trials (default: 1)",
    "TAPA_SOCKET_IFNAME": "device engine: network interfaces for TCP between nodes, in the form of `NCCL_SOCKET_IFNAME` "
    "(default: that; else the fastest that is up)",
}
# Between programs of ours, and nobody else's.
INTERNAL = {"TAPA_SIM_JOB", "TAPA_SIM_PLATFORM"}
# Settings of exchange plugins: (values, default, what for).
SETTINGS = {
    "progress": (
        "`auto`, `thread`, `calls`",
        "`auto`",
        "what moves an exchange while the program computes: a thread where MPI allows one, a thread or an error, the program's calls alone",
    ),
    "poll_us": (
        "microseconds, 1 or more",
        "1000; with more ranks of a node than cores 10000",
        "longest pause between two looks of that thread",
    ),
    "plan": (
        "a plan as in `TAPA_PLAN`, `/` in place of each comma",
        "libtapa's choice",
        "forces one plan for all exchanges of host memory",
    ),
    "library": ("name or path", "`libnccl.so.2`", "NCCL's library, loaded at the first use of device memory"),
    "zero-cta": ("`0`, `1`", "`0`", "asks NCCL for its way by copy engines"),
}
SOURCES = ["common", "libtapa/src", "libdit/src", "plugins", "tools", "bench"]
NAME = r"(?:TAPA|DIT)_[A-Z][A-Z0-9_]*[A-Z0-9]"


def help_of(command: list[str]) -> str:
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {done.returncode}: {done.stderr}")
    return done.stdout


def parted(text: str) -> list[str]:
    """The lines, with two blanks or more before each description: an option that just fits before the descriptions' column has one.
    Where it does not fit the description is the next line, and a blank in that column says nothing."""
    column = re.search(r"^  -h, ?--help +(?=\S)", text, flags=re.MULTILINE)
    lines = text.splitlines()
    if not column:
        return lines
    at = len(column[0])
    for i, line in enumerate(lines):
        below = "".join(lines[i + 1 : i + 2])
        if line.startswith("  -") and line[at - 1 : at] == " " and not below.startswith(" " * at):
            lines[i] = line[:at] + " " + line[at:]
    return lines


def rows_of(text: str) -> list[tuple[str, str]]:
    """(names, description) of each option. CLI11 and argparse both begin an option two blanks from the left and go on further right."""
    rows = []
    for line in parted(text):
        match = re.match(r"  (-\S*?(?:, ?-\S+)*|[a-z]+)(?: (\S.*?))?(?:   *(\S.*))?$", line)
        if match and re.match(r"  -", line):
            names = ", ".join(
                re.findall(r"(?<![\w-])--?[\w-]+", match[1] + ("," + match[2] if match[2] and match[2].startswith("-") else ""))
            )
            rows.append([names, [match[3] or ""]])
        elif rows and re.match(r" {12,}\S", line):
            rows[-1][1].append(line.strip())
        elif not line.startswith("   "):
            rows.append(None)
            rows.pop()
    return [(names, " ".join(part for part in parts if part)) for names, parts in rows if not names.endswith(("--help", "--version"))]


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows), ""]


def program_help(program: str, bin_folder: str, cluster: str) -> str:
    words = program.split()
    first = [sys.executable, cluster] if words[0] == "cluster" else [os.path.join(bin_folder, words[0])]
    return help_of([*first, *words[1:], "--help"])


def heading(program: str) -> str:
    return f"### `tools/{program}` (installed: `tapa-{program}`)" if program.startswith("cluster") else f"### `{program}`"


def programs_tables(title: str, rows: dict[str, list[tuple[str, str]]]) -> list[str]:
    """A table of the options that several of the programs have with one meaning, then one of each program's own."""
    users = {row: [program for program in rows if row in rows[program]] for program in rows for row in rows[program]}
    shared = {row: names for row, names in users.items() if len(names) > 1}
    lines = []
    if shared:
        short = {program: program.split()[-1] for program in rows}
        cells = [[f"`{names}`", in_words(list(rows), of, short), escaped(what)] for (names, what), of in shared.items()]
        lines += [f"### Common options: {title[0].lower()}{title[1:]}", "", *table(["option", "programs", "meaning"], cells)]
    for program in rows:
        own = [[f"`{names}`", escaped(what)] for names, what in rows[program] if (names, what) not in shared]
        lines += [heading(program), ""]
        lines += table(["option", "meaning"], own) if own else ["Common options only.", ""]
    return lines


def in_words(all_of_them: list[str], some: list[str], short: dict[str, str]) -> str:
    lacking = [program for program in all_of_them if program not in some]
    if not lacking:
        return "all"
    names = ", ".join(f"`{short[program]}`" for program in (lacking if len(lacking) < len(some) else some))
    return f"all but {names}" if len(lacking) < len(some) else names


def library_options(bin_folder: str) -> list[tuple[str, ...]]:
    """(variable or "tuning file", key, what for, values, default), as tapa-info tells."""
    text = help_of([os.path.join(bin_folder, "tapa-info"), "--options"])
    pattern = r"^(TAPA_\w+|tuning file) \(([\w-]+)\): .*\n    (.*)\n    (.*); default (.*)$"
    return re.findall(pattern, text, flags=re.MULTILINE)


def variables_of(source: str) -> set[str]:
    found = set()
    for folder in SOURCES:
        for path, folders, files in os.walk(os.path.join(source, folder)):
            folders[:] = [name for name in folders if name not in ("tests", "__pycache__")]
            for name in files:
                if os.path.splitext(name)[1] not in (".cpp", ".hpp", ".c", ".cu", ".py", ".sh", ""):
                    continue
                with open(os.path.join(path, name), encoding="utf-8", errors="replace") as file:
                    text = file.read()
                found.update(re.findall(rf'(?:getenv\(|variable\(|environ(?:\.get)?[\[(]|_variable = |\$\{{?)"?({NAME})', text))
                found.update(re.findall(rf'"({NAME})"', text) if "files::variable" in text or "getenv" in text or "setenv" in text else [])
    return found


def settings_of(source: str) -> dict[str, list[str]]:
    """key -> the exchange plugins that read it."""
    found = {}
    for plugin in sorted(os.listdir(os.path.join(source, "plugins"))):
        path = os.path.join(source, "plugins", plugin, "plugin.cpp")
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            for keys in re.findall(r"PluginConfig config\(\w+, \{([^}]*)\}\)", file.read()):
                for key in re.findall(r'"([^"]+)"', keys):
                    found.setdefault(key, []).append(plugin)
    return found


def build_options(source: str) -> dict[str, tuple[str, str]]:
    rows = {}
    for folder in ("cmake", "plugins", "libdit", "libtapa"):
        for path, folders, files in os.walk(os.path.join(source, folder)):
            folders[:] = [name for name in folders if name != "torch"]  # a project of its own, too
            for name in files:
                if name != "CMakeLists.txt" and not name.endswith(".cmake"):
                    continue
                with open(os.path.join(path, name), encoding="utf-8") as file:
                    text = file.read()
                for option, words, value in re.findall(rf'^ *option\(({NAME}) "([^"]*)" (\w+)\)', text, flags=re.MULTILINE):
                    rows[option] = (value, words)
                for option, value, words in re.findall(rf'^ *set\(({NAME}) (\S+) CACHE \w+ "([^"]+)"', text, flags=re.MULTILINE):
                    rows[option] = (value.strip('"'), words)
                for option, words in re.findall(r'^tapa_optional_module\((\w+) \S+ \S+ "([^"]+)"\)', text, flags=re.MULTILINE):
                    rows[f"TAPA_{option}"] = ("ON", words)
    return rows


def page(source: str, bin_folder: str, cluster: str) -> tuple[str, set[str]]:
    ours = library_options(bin_folder)
    lines = [
        "# Reference of options",
        "",
        "Written by `cmake --build build/release --target reference` from what programs and sources say; a test compares. How to use",
        "them: [clusters.md](clusters.md), [drop-in.md](drop-in.md), [dit.md](dit.md). Scripts of `tools` and `bench`, and `first_calls`,",
        "`device_*` and `ulysses*`, have `--help` instead.",
        "",
        "## Environment variables of libtapa and the drop-in",
        "",
        "Each is also an option of `TAPA_Comm_set(comm, key, value)`, with the key in brackets. "
        "Rank 0's values hold for all ranks, but for `TAPA_ENABLE`.",
        "",
    ]
    rows = [[place, key, *map(escaped, (values, default, what))] for place, key, what, values, default in ours]
    of_variables = [[f"`{place}` ({key})", *row] for place, key, *row in rows if place != "tuning file"]
    lines += table(["variable (key)", "values", "default", "meaning"], of_variables)
    lines += [
        "For trials, and for machines on which a default is wrong, under `options` in the file of `TAPA_TUNING`",
        '(`{"format": "tapa-tuning/1", "options": {"wait": "sleep"}}`), and in `TAPA_Comm_set`:',
        "",
    ]
    of_file = [[f"`{key}`", *row] for place, key, *row in rows if place == "tuning file"]
    lines += table(["option", "values", "default", "meaning"], of_file)
    lines += ["## Other environment variables", ""]
    lines += table(["variable", "meaning"], [[f"`{name}`", what] for name, what in sorted(OTHERS.items())])
    lines += [
        "## Settings of exchange plugins",
        "",
        "`key=value,key=value` in `config` of `dit_open_options`, or `--config` of `dit-conformance` and `dit_exchange`; the same on all",
        "ranks. `local` and `bootstrap` have none.",
        "",
    ]
    readers = settings_of(source)
    settings = [[f"`{key}`", ", ".join(f"`{name}`" for name in readers.get(key, [])), *SETTINGS[key]] for key in SETTINGS]
    lines += table(["setting", "plugins", "values", "default", "meaning"], settings)
    for title, programs in PROGRAMS.items():
        lines += [f"## {title}", "", *programs_tables(title, {name: rows_of(program_help(name, bin_folder, cluster)) for name in programs})]
    lines += ["## Options of the build", "", "`cmake --preset release -DOPTION=VALUE`", ""]
    of_build = sorted(build_options(source).items())
    lines += table(["option", "default", "meaning"], [[f"`{name}`", value or "(empty)", escaped(what)] for name, (value, what) in of_build])
    return "\n".join(lines).rstrip("\n") + "\n", {place for place, *_ in ours}


def main(source: str, bin_folder: str, cluster: str, write: bool) -> int:
    needed = {words.split()[0] for programs in PROGRAMS.values() for words in programs} - {"cluster"}
    if lacking := sorted(name for name in needed if not os.path.exists(os.path.join(bin_folder, name))):
        print(f"skipped: not in this build: {', '.join(lacking)}")
        return 77
    made, ours = page(source, bin_folder, cluster)
    failed = 0
    for name in sorted(variables_of(source) - ours - set(OTHERS) - INTERNAL):
        print(f"{name}: read by the sources, but neither an option of the library nor in OTHERS of {__file__}")
        failed = 1
    for name in sorted((set(OTHERS) | INTERNAL) - variables_of(source)):
        print(f"{name}: in OTHERS or INTERNAL of {__file__}, but no source reads it")
        failed = 1
    for line in made.splitlines():
        if re.search(r"(?<!\\)\| *\|", line):
            print(f"a cell is empty: {line}")
            failed = 1
    for key in sorted(set(settings_of(source)) - set(SETTINGS)):
        print(f"{key}: read by an exchange plugin, but not in SETTINGS of {__file__}")
        failed = 1
    path = os.path.join(source, "docs", "reference.md")
    if write:
        with open(path, "w", encoding="utf-8") as file:
            file.write(made)
        return failed
    with open(path, encoding="utf-8") as file:
        there = file.read()
    if there != made:
        sys.stdout.writelines(difflib.unified_diff(there.splitlines(True), made.splitlines(True), "docs/reference.md", "what it should be"))
        print("write it anew: cmake --build build/release --target reference")
        failed = 1
    return failed


sys.exit(main(*sys.argv[1:4], "--write" in sys.argv))
