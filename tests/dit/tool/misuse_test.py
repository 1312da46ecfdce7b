#!/usr/bin/env python3
"""Every way to misuse dit, with the exact line of the error. Usage: misuse_test.py DIT TINY_MODEL MANY_RUNS"""

import json
import os
import struct
import unittest
from collections.abc import Callable
from typing import Any

import broken_models
import ground
from ground import MODEL, good, run

WHOLE = "expected a whole number from "
COMMANDS = "expected one of generate, plan, profile, check, compare, inspect, bench, sim"
CLASSES = "expected a number from 0 to 2 or one of spots, stripes, waves"


class Misuse(unittest.TestCase):
    """Tables of (arguments, message); every line begins with "dit: " and is the only one."""

    def check(self, arguments: list[object], message: str, status: int = 2) -> None:
        with self.subTest(arguments=arguments):
            result = run(*arguments)
            self.assertEqual(result.stderr, f"dit: {message}\n")
            self.assertEqual(result.returncode, status)

    def check_table(self, prefix: list[object], table: list[tuple[list[object], str]], status: int = 2) -> None:
        for arguments, message in table:
            self.check([*prefix, *arguments], message, status)

    def test_commands(self) -> None:
        self.check_table(
            [],
            [
                ([], f"no command, {COMMANDS}"),
                (["paint"], f'no command "paint", {COMMANDS}'),
                (["generate", "--bogus", "7"], 'dit generate takes no "--bogus 7", expected what dit generate --help lists'),
                (["compare", "a.png", "b.png", "c.png"], 'dit compare takes no "c.png", expected what dit compare --help lists'),
                (["compare", "a.png"], "b is required"),
                (["generate", "--model", MODEL], "nothing to write: expected -o FILE, --save-latents, --json or --trace"),
            ],
        )

    def test_image_options(self) -> None:
        self.check_table(
            ["generate", "--model", MODEL, "-o", "x.png"],
            [
                (["--class", "dots"], f"class 'dots': {CLASSES}"),
                (["--class", "3"], f"class '3': {CLASSES}"),
                (["--class", "-1"], f"class '-1': {CLASSES}"),
                (["--class", ""], f"class '': {CLASSES}"),
                (["--model", ""], '--model: "", expected a folder'),
                (["--steps", "0"], f'--steps: "0", {WHOLE}1 to 10000'),
                (["--steps", "-3"], f'--steps: "-3", {WHOLE}1 to 10000'),
                (["--steps", "many"], f'--steps: "many", {WHOLE}1 to 10000'),
                (["--steps", "99999999999999999999"], f'--steps: "99999999999999999999", {WHOLE}1 to 10000'),
                (["--seed", "-1"], f'--seed: "-1", {WHOLE}0 to 9223372036854775807'),
                (["--seed", "9223372036854775808"], f'--seed: "9223372036854775808", {WHOLE}0 to 9223372036854775807'),
                (["--seed", "1e3"], f'--seed: "1e3", {WHOLE}0 to 9223372036854775807'),
                (["--size", "30"], "height = 30: expected a multiple of the patch size 4, from 4 to 16384"),
                (["--size", "32x"], '--size: "32x", expected pixels as N or HEIGHTxWIDTH, each from 1 to 16384'),
                (["--size", ""], '--size: "", expected pixels as N or HEIGHTxWIDTH, each from 1 to 16384'),
                (["--size", "0"], '--size: "0", expected pixels as N or HEIGHTxWIDTH, each from 1 to 16384'),
                (["--size", "32x999999"], '--size: "32x999999", expected pixels as N or HEIGHTxWIDTH, each from 1 to 16384'),
                (["--guidance", "-1"], '--guidance: "-1", expected a number from 0 to 1000'),
                (["--guidance", "nan"], '--guidance: "nan", expected a number from 0 to 1000'),
                (["--sampler", "heun"], "sampler = 'heun': expected flow-euler, ddim or dpm++2m"),
                (["--shift", "0"], '--shift: "0", expected a number from 0.01 to 100'),
                (["--shift", "3", "--sampler", "ddim"], '--shift is "3.00", expected --sampler flow-euler with it, not ddim'),
                (["--guidance", "inf"], '--guidance: "inf", expected a number from 0 to 1000'),
            ],
        )

    def test_run_options(self) -> None:
        self.check_table(
            ["generate", "--model", MODEL, "-o", "x.png", "--ranks", "3"],
            [
                (["--schedule", "fastest"], 'schedule "fastest" is not known: expected one of flat, v-first, pipelined'),
                (["--guidance-mode", "sideways"], "guidance mode = sideways: expected batched, sequential or parallel"),
                (["--guidance-mode", "parallel"], "guidance_mode = parallel: expected an even number of ranks for it, not 3"),
                (["--head-groups", "9"], "head_groups = 9: expected 1 to 2, the heads of a rank"),
                (
                    ["--policy", "lossy"],
                    '--policy is "lossy", expected exact, bf16, int8, fp8, fine, good, balanced, fast, draft, displaced, paper, '
                    "step-cache:THRESHOLD, v-major[:key=value,...] or a policy file (FILE.json)",
                ),
                (
                    ["--policy", "fast+step-cache:0"],
                    '--policy is "step-cache:0", expected step-cache:THRESHOLD, more than 0, such as step-cache:0.1',
                ),
                (["--policy", "fast", "--dtype", "fp64"], "dtype = Double: expected Float or BFloat16 with a wire policy"),
                (
                    ["--policy", "v-major:ratio=1.5"],
                    "v-major: ratio=1.5: expected linear, a number from 0 to 1, such numbers with / between them, or @FILE",
                ),
                (["--policy", "v-major:warmup=-1"], "v-major: warmup=-1: expected a whole number of steps, at least 0"),
                (["--policy", "v-major:refresh=often"], "v-major: refresh=often: expected a whole number of steps, at least 0"),
                (
                    ["--policy", "v-major:format=int3"],
                    "v-major: format=int3: expected full, bf16, fp8, int8, int4, int2 or int1, also with residual- before it",
                ),
                (["--policy", "v-major:speed=3"], "v-major: speed=3: expected one of the keys warmup, refresh, ratio, boundary, format"),
                (
                    ["--policy", "v-major:ratio=@none.txt"],
                    "v-major: ratio=@none.txt: expected a file of at most 1048576 bytes (No such file or directory)",
                ),
                (["--policy", "v-major:boundary=rack"], "wire policy: rules[0].level = rack: expected one of world"),
                (["--cache-budget", "2q"], '--cache-budget: "2q", expected a number of bytes such as 4096, 512MiB or 2GiB'),
                (["--cache-budget", "-1"], '--cache-budget: "-1", expected a number of bytes such as 4096, 512MiB or 2GiB'),
                (
                    ["--policy", "v-major", "--ranks-per-node", "1", "--cache-budget", "1KiB"],
                    "the wire policy remembers up to 36464 bytes on a rank, the budget is 1024: expected more ranks, one guidance "
                    "branch per group of ranks, a policy that remembers less (no momentum, no residuals, no rows that stay), a "
                    "smaller image, or a budget of at least 36464",
                ),
                (["--beyond-heads", "shrug"], '--beyond-heads is "shrug", expected gather or refuse'),
                (
                    ["--beyond-heads", "refuse", "--ranks", "6"],
                    "ranks = 6: expected at most 4, the largest useful count: each rank attends for at least one of 4 heads",
                ),
                (["--dtype", "int8"], '--dtype is "int8", expected fp32, bf16 or fp64'),
                (["--device", "tpu"], '--device is "tpu", expected cpu, cuda or cuda:N'),
                (["--device", "cuda:x"], '--device is "cuda:x", expected cpu, cuda or cuda:N'),
            ],
        )

    def test_policy_files(self) -> None:
        self.check(
            ["generate", "--model", MODEL, "-o", "x.png", "--policy", "none.json"],
            "none.json: cannot be read: No such file or directory",
            1,
        )
        with open(ground.path("odd.json"), "w") as file:
            file.write('{"format": "dit-wire-policy", "version": 1, "rules": [{"mode": "int3"}]}')
        self.check(
            ["generate", "--model", MODEL, "-o", "x.png", "--policy", "odd.json"],
            "odd.json: rules[0]: mode: wire mode 'int3': expected skip, or [late | rows FRACTION | v-major RATIO] "
            "[residual] FORMAT, where FRACTION is more than 0 and less than 1, RATIO from 0 to 1, and FORMAT full, "
            "bf16, fp8, int8, int4, int2 or int1",
            1,
        )

    def test_rank_options(self) -> None:
        self.check_table(
            ["generate", "--model", MODEL, "-o", "x.png"],
            [
                (["--ranks", "0"], f'--ranks: "0", {WHOLE}1 to 1024'),
                (["--ranks", "99999999999"], f'--ranks: "99999999999", {WHOLE}1 to 1024'),
                (["--threads", "0"], f'--threads: "0", {WHOLE}1 to 1024'),
                (["--timeout", "soon"], '--timeout: "soon", expected a time such as 50us, 0.2ms or 30s'),
                (["--rate", "fast"], '--rate: "fast", expected a rate such as 100mbit, 10gbit or 1.5GB (a second)'),
                (["--ranks", "2", "--rate", "100mbit"], "--rate is the rate between nodes: expected --ranks-per-node with it"),
                (["--plugin", "mpi", "--ranks", "3"], "--ranks is 3, but the job has 1 process: start it by mpirun -n 3"),
                (["--plugin", "mpi", "--ranks-per-node", "2"], "--ranks-per-node is for --plugin local, but the plugin is mpi"),
            ],
        )

    def test_a_plugin_that_is_not_there(self) -> None:
        result = run("generate", "--model", MODEL, "-o", "x.png", "--plugin", "carrier-pigeon")
        self.assertRegex(result.stderr, r"^dit: .*carrier-pigeon.*\n$")
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertEqual(result.returncode, 2)

    def test_outputs(self) -> None:
        os.makedirs(ground.path("folder.png"), exist_ok=True)
        self.check_table(
            ["generate", "--model", MODEL],
            [
                (["-o", "/nonexistent/x.png"], "-o /nonexistent/x.png: there is no folder /nonexistent"),
                (["-o", "folder.png"], "-o folder.png: is a folder, expected a file"),
                (["--json", "/nonexistent/x"], "--json /nonexistent/x: there is no folder /nonexistent"),
                (["--trace", "/nonexistent/x"], "--trace /nonexistent/x: there is no folder /nonexistent"),
                (["--save-latents", "/nonexistent/x"], "--save-latents /nonexistent/x: there is no folder /nonexistent"),
                (["-o", "x.jpg"], "-o x.jpg: a PNG is written, expected a name that ends in .png"),
                (["-o", "-"], "-o -: only text goes to the standard output, expected a file"),
                (["-o", "x.png", "--save-latents", "./x.png"], "--save-latents ./x.png: is the file of -o too, expected another one"),
                (["--json", "-", "--trace", "-"], "--trace -: is the file of --json too, expected another one"),
            ],
        )

    def test_an_output_that_only_the_kernel_refuses(self) -> None:
        """Found before the work, not after it."""
        result = run("generate", "--model", MODEL, "--size", "4096", "--steps", "10000", "-o", "/proc/x.png")
        self.assertRegex(result.stderr, r"^dit: -o /proc/x\.png: cannot be written: (No such file or directory|Permission denied)\n$")
        self.assertEqual(result.returncode, 2)

    def test_configs(self) -> None:
        def change(key: str, value: object) -> Callable[[dict[str, Any]], None]:
            def apply(config: dict[str, Any]) -> None:
                config[key] = value

            return apply

        def network(key: str, value: object) -> Callable[[dict[str, Any]], None]:
            def apply(config: dict[str, Any]) -> None:
                config["network"][key] = value

            return apply

        for name, apply, message in [
            (
                "no-json",
                lambda config: "{",
                ": not JSON: parse error at line 1, column 2: syntax error while parsing "
                "object key - unexpected end of input; expected string literal",
            ),
            (
                "unknown-key",
                change("colour", "red"),
                ': unknown key "colour", expected _class_name, network, class_names, channels, trained_sizes, scheduler, guidance, steps',
            ),
            ("other-class", change("_class_name", "FluxTransformer"), ': _class_name = "FluxTransformer", expected "PixelDit"'),
            ("no-names", lambda config: config.pop("class_names") and None, ': key "class_names" is missing'),
            ("few-names", change("class_names", ["a"]), ": class_names = an array of 1, expected an array of 3"),
            ("negative", network("layers", -1), ": network.layers = -1, expected an integer from 1 to 1000"),
            ("odd", network("head_dim", 6), ": network.head_dim = 6, expected a multiple of 4"),
            ("words", network("width", "wide"), ': network.width = "wide", expected an integer from 1 to 65536'),
            (
                "scale",
                change("channels", [{"name": "u", "mean": 0, "scale": 0}, {"name": "v", "mean": 0, "scale": 1}]),
                ": channels[0].scale = 0, expected a number above 0",
            ),
            ("size", change("trained_sizes", [30]), ": trained_sizes[0] = 30, expected a multiple of network.patch = 4"),
        ]:
            folder = broken_models.with_config(name, apply)
            self.check(["generate", "--model", folder, "-o", "x.png"], f"{folder}/config.json{message}", 1)

    def test_weights(self) -> None:
        def without(header: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
            header["final"] = header.pop(sorted(header)[1])
            return header, data

        def typed(header: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
            name = next(key for key in header if key != "__metadata__")
            header[name]["dtype"] = "I32"
            return header, data

        def reshaped(header: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
            name = next(key for key in header if key != "__metadata__" and len(header[key]["shape"]) == 2)
            header[name]["shape"].reverse()
            header[name]["shape"] = [1, *header[name]["shape"]]
            return header, data

        def overlapping(header: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
            names = sorted((key for key in header if key != "__metadata__"), key=lambda key: header[key]["data_offsets"])
            header[names[1]]["data_offsets"] = header[names[0]]["data_offsets"]
            header[names[1]]["shape"] = header[names[0]]["shape"]
            return header, data

        for _name, folder, message in [
            (
                "cut",
                broken_models.cut_short("cut"),
                'FOLDER/model.safetensors: tensor "blocks.1.attn.to_q.weight": data_offsets [68480, 72576], expected begin <= end '
                "<= 68500, the bytes of data in this file",
            ),
            (
                "stub",
                broken_models.cut_short("stub", 0),
                "FOLDER/model.safetensors: 0 bytes, expected a safetensors file: 8 bytes of header length, a header, data",
            ),
            (
                "header",
                broken_models.with_weights("header", lambda h, d: struct.pack("<Q", 1 << 60) + d),
                "FOLDER/model.safetensors: header length 1152921504606846976, expected at most 100000000: not a safetensors file",
            ),
            (
                "missing",
                broken_models.with_weights("missing", without),
                "FOLDER: tensor adaln_single.linear.bias is missing: expected shape [192]",
            ),
            (
                "typed",
                broken_models.with_weights("typed", typed),
                "FOLDER: tensor adaln_single.linear.bias is Int, expected floating-point numbers",
            ),
            (
                "reshaped",
                broken_models.with_weights("reshaped", reshaped),
                "FOLDER: tensor adaln_single.linear.weight has shape [1, 32, 192]: expected [192, 32]",
            ),
            (
                "overlapping",
                broken_models.with_weights("overlapping", overlapping),
                'FOLDER/model.safetensors: tensor "adaln_single.linear.weight" begins at byte 0 of the data, inside the '
                "tensor before it, which ends at 768",
            ),
        ]:
            self.check(["generate", "--model", folder, "-o", "x.png"], message.replace("FOLDER", folder), 1)

    def test_folders(self) -> None:
        empty = ground.path("empty")
        os.makedirs(empty, exist_ok=True)
        weightless = broken_models.copy("weightless")
        os.remove(f"{weightless}/model.safetensors")
        shard = broken_models.copy("shard")
        os.remove(f"{shard}/model.safetensors")
        with open(f"{shard}/model.safetensors.index.json", "w", encoding="utf8") as file:
            json.dump({"weight_map": {"a": "model-1.safetensors"}}, file)
        for folder, message in [
            ("nowhere", "nowhere: not a folder, expected one with config.json and model.safetensors"),
            (empty, f"{empty}/config.json: cannot be read: No such file or directory"),
            (weightless, f"{weightless}: no model.safetensors and no model.safetensors.index.json, expected one of them"),
            (shard, f"{shard}/model.safetensors.index.json: shard model-1.safetensors is missing"),
        ]:
            self.check(["generate", "--model", folder, "-o", "x.png"], message, 1)

    def test_compare(self) -> None:
        good("generate", "--model", MODEL, "--steps", 1, "-o", "a.png", "--save-latents", "a.safetensors")
        good("generate", "--model", MODEL, "--steps", 1, "--size", "32x36", "-o", "wide.png", "--save-latents", "wide.safetensors")
        with open(ground.path("text.png"), "w", encoding="utf8") as file:
            file.write("not a picture, but long enough to be one")
        with open(ground.path("half.png"), "wb") as file:
            file.write(ground.read("a.png")[:200])
        broken_models.safetensors("other.safetensors", {"weights": ("F32", [1], bytes(4))})
        broken_models.safetensors("flat.safetensors", {"image": ("F32", [4], bytes(16))})
        self.check_table(
            ["compare"],
            [
                (["a.png", "wide.png"], "wide.png has 36x32 pixels, expected 32x32 as a.png"),
                (["a.png", "a.safetensors"], "a.png and a.safetensors: expected two PNG files or two safetensors files"),
                (["a.safetensors", "wide.safetensors"], "the fields have shapes 2x32x32 and 2x32x36, expected the same"),
                (["a.safetensors", "a.safetensors", "--difference", "d.png"], "--difference is for PNG files, but a.safetensors is none"),
                (["a.png", "a.png", "--gain", "0"], '--gain: "0", expected a number from 0.001 to 1000'),
                (["a.png", "a.png", "--range", "-2"], '--range: "-2", expected a number from 1e-30 to 1e+30'),
                (
                    ["a.png", "a.png", "--difference", "/nonexistent/d.png"],
                    "--difference /nonexistent/d.png: there is no folder /nonexistent",
                ),
            ],
        )
        self.check_table(
            ["compare"],
            [
                (["a.png", "none.png"], "none.png: cannot be read: No such file or directory"),
                (["a.png", "text.png"], "text.png: not a PNG file"),
                (["a.png", "half.png"], "half.png: not a readable PNG: the file is cut short"),
                (
                    ["a.safetensors", "other.safetensors"],
                    'other.safetensors: has no tensor "image", expected a file of dit generate --save-latents',
                ),
                (
                    ["flat.safetensors", "flat.safetensors"],
                    'flat.safetensors: tensor "image" is Float 4, expected floats of channels x height x width',
                ),
            ],
            1,
        )

    def test_inspect(self) -> None:
        cut = broken_models.cut_short("inspected", 0.9) + "/model.safetensors"
        self.check(["inspect", "none"], "none: there is no such file or folder, expected a model, a checkpoint or a PNG")
        self.check(
            ["inspect", cut],
            f'{cut}: tensor "t_embedder.linear_1.weight": data_offsets [98944, 131712], expected begin <= end <= '
            "126237, the bytes of data in this file",
            1,
        )

    def test_check(self) -> None:
        self.check_table(
            ["check", "--model", MODEL],
            [
                (["--ranks", "1,x"], f'--ranks: "x", {WHOLE}1 to 64'),
                (["--ranks", "0"], f'--ranks: "0", {WHOLE}1 to 64'),
                (["--ranks", "1,"], '--ranks: "1,", expected words with a comma between'),
                (["--ranks", ""], '--ranks: "", expected words with a comma between'),
                (["--schedules", ""], '--schedules: "", expected words with a comma between'),
                (["--schedules", "quick"], 'schedule "quick" is not known: expected one of flat, v-first, pipelined'),
                (["--schedules", "auto"], "--schedules has auto, expected flat, v-first or pipelined"),
                (["--tolerance", "2"], '--tolerance: "2", expected a number from 0 to 1'),
            ],
        )

    def test_bench(self) -> None:
        row = "expected name=plugin/schedule/policy[/guidance-mode[/head-groups]]"
        self.check_table(
            ["bench", "--model", MODEL, "--ranks", "2"],
            [
                (["--rows", "a=local/flat"], f'--rows: "a=local/flat", {row}'),
                (["--rows", "=local/flat/exact"], f'--rows: "=local/flat/exact", {row}'),
                (["--rows", ";"], "--rows: no row, expected name=plugin/schedule/policy;..."),
                (
                    ["--rows", "fast"],
                    '--rows: "fast" is unknown, expected one of flat, +V-First, pipelined, +V-Major, or name=plugin/schedule/policy',
                ),
                (["--rows", "flat;flat"], '--rows: two rows are named "flat", expected different names'),
                (
                    ["--rows", "a=mpi/flat/exact"],
                    "--rows: a has plugin mpi, expected local: other plugins join the processes of a job (start it by mpirun)",
                ),
                (["--rows", "a=local/quick/exact"], 'schedule "quick" is not known: expected one of flat, v-first, pipelined'),
                (["--rows", "a=local/flat/exact/batched/0"], f'--rows: head groups "0" of a, {WHOLE}1 to 1024'),
                (["--repeat", "0"], f'--repeat: "0", {WHOLE}1 to 1000'),
                (["--seeds", "-1"], f'--seeds: "-1", {WHOLE}1 to 10000'),
                (["--plot", "/nonexistent/p.svg"], "--plot /nonexistent/p.svg: there is no folder /nonexistent"),
                (["--json", "x", "--plot", "x"], "--plot x: is the file of --json too, expected another one"),
                (
                    ["--images", MODEL + "/config.json"],
                    f"--images {MODEL}/config.json: expected a folder, or a place for a new one (Not a directory)",
                ),
            ],
        )

    def test_plan(self) -> None:
        self.check_table(
            ["plan", "--model", MODEL, "--flops", "1g"],
            [
                (
                    ["--ranks", "4", "--ranks-per-node", "2"],
                    "--slow-rate is not given: expected the rate of a node's NIC, such as 100mbit, as 4 ranks are on several nodes",
                ),
                (["--ranks", "two"], f'--ranks: "two", {WHOLE}1 to 1024'),
                (["--flops", "lots"], '--flops: "lots", expected operations a second such as 20gflops or 1.5tflops'),
                (["--slow-rate", "0mbit"], '--slow-rate: "0mbit", expected a rate such as 100mbit, 10gbit or 1.5GB (a second)'),
                (["--latency", "-1us"], '--latency: "-1us", expected a time such as 50us, 0.2ms or 30s'),
                (["--progress-cost", "2"], '--progress-cost: "2", expected a number from 0 to 1'),
                (["--policy", "exact"], '--policy is "exact", expected one that approximates: exact rows are always there'),
                (["--size", "33"], "height = 33: expected a multiple of the patch size 4, from 4 to 16384"),
                (
                    ["--ranks", "8", "--beyond-heads", "refuse"],
                    "ranks = 8: expected at most 4, the largest useful count: each rank attends for at least one of 4 heads",
                ),
                (
                    ["--ranks", "3", "--guidance-mode", "parallel"],
                    "guidance_mode = parallel: expected an even number of ranks for it, not 3",
                ),
            ],
        )


if __name__ == "__main__":
    unittest.main()
