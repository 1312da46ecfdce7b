"""The operators of libdit_torch.so on CPUs, over gloo: the reference's numbers, one graph, true fakes."""

import re

import pytest
import torch

import dit_torch._inductor
import ranks
from dit_torch import _library, reference
from dit_torch.exchange import Exchange
from dit_torch.group import Group
from dit_torch.layout import Layout, even_part
from dit_torch.sized import Kind, Sizes, finders
from operator_cases import (
    CASES,
    KEY,
    OUTPUT,
    QUERY,
    VALUE,
    Case,
    make,
    preparation,
    source,
    with_own_angles,
)

pytestmark = pytest.mark.skipif(_library.path() is None, reason="libdit_torch.so is not there")
CPU = torch.device("cpu")


def layout_of(case: Case, size: int) -> Layout:
    first, replicated = _library.IMAGE_FIRST, _library.TEXT_REPLICATED
    return Layout(*case[:6], size, bool(case.flags & first), bool(case.flags & replicated))


def compare_with_reference() -> int:
    group = Group()
    compared = 0
    for number, case in enumerate(CASES):
        name = make(group, f"exchange {number}", case, torch.float32, CPU)
        reference.make_exchange(name, layout_of(case, group.size), group)
        x = [source(name, case, what, number, torch.float32, group.rank) for what in range(4)]
        how = preparation(case, 1 + number % 2, 1 + number % 2, torch.float32, case.heads)
        ours, plain = torch.ops.dit, torch.ops.dit_reference
        own = with_own_angles(how, x[QUERY])
        for what, given in ((QUERY, how), (QUERY, own), (KEY, {}), (VALUE, {}), (OUTPUT, {})):
            token = ours.start(x[what], name, what, 0, **given)
            right = plain.finish(plain.start(x[what], name, what, 0, **given), name, what, 0)
            torch.testing.assert_close(ours.finish(token, name, what, 0), right, rtol=1e-5, atol=1e-6)
            compared += 1
        for a, b in zip(ours.scatter_qkv(*x[:3], name, 0), plain.scatter_qkv(*x[:3], name, 0), strict=True):
            assert torch.equal(a, b)
        assert torch.equal(ours.gather(x[OUTPUT], name, 0), plain.gather(x[OUTPUT], name, 0))
    group.close()
    return compared


@pytest.mark.parametrize("size", [1, 2, 3])
def test_numbers_are_the_references(size: int) -> None:
    assert ranks.run(size, compare_with_reference) == [5 * len(CASES)] * size


def asked_for_names() -> list[object]:
    """What a graph's operators ask Python, by the first number of the sizes, and what they say."""
    group = Group()
    names = {batch: make(group, f"of {batch}", CASES[0], torch.float32, CPU) for batch in (1, 2)}
    x = source(names[1], CASES[0], QUERY, 1, torch.float32, group.rank)
    right = torch.ops.dit.exchange(x, names[1], QUERY, 0)
    asked: list[object] = []

    def find(kind: Kind, sizes: Sizes, _: torch.Tensor) -> Exchange:
        asked.append(sizes.batch)
        return Exchange(names[sizes.batch], True, kind, sizes)

    def is_right(batch: int) -> bool:
        which = ([99] + [1] * 9, [batch, 0, 0, 0])
        token = torch.ops.dit_native.start(x, *which, QUERY, 0)
        return torch.equal(torch.ops.dit_native.finish(token, *which, QUERY, 0), right)

    finders[99] = find
    assert all(is_right(batch) for batch in (1, 1, 2, 1, 2))
    group.library.free_exchange(names[1])
    names[1] = make(group, "another", CASES[0], torch.float32, CPU)
    assert is_right(1)
    for what in ("not under way", "disabled"):
        try:
            if what == "disabled":
                del finders[99]
                group.library.free_exchange(names[1])
            torch.ops.dit_native.finish(x, [99] + [1] * 9, [1, 0, 0, 0], KEY, 0)
        except RuntimeError as error:
            asked.append(str(error))
    group.close()
    return asked


def test_a_graphs_operators_ask_for_names_that_are_new_or_freed() -> None:
    (asked,) = ranks.run(1, asked_for_names)
    # Before a new one those that were used meanwhile: Python frees what it has not heard of for longest.
    assert asked[:5] == [1, 1, 2, 2, 1]
    assert "nothing is under way of key" in asked[5] and "the transformer was disabled" in asked[6]


def layer(x: torch.Tensor, name: str, number: int, how: dict) -> torch.Tensor:
    """V first, then Q and K, and back."""
    v, q, k = x * 0.25 + 1, x * 1.5, x * 0.5
    of_v = torch.ops.dit.start(v, name, VALUE, number)
    of_q = torch.ops.dit.start(q, name, QUERY, number, **how, after=of_v)
    of_k = torch.ops.dit.start(k, name, KEY, number, **how, after=of_q)
    query = torch.ops.dit.finish(of_q, name, QUERY, number, of_k)
    key = torch.ops.dit.finish(of_k, name, KEY, number)
    value = torch.ops.dit.finish(of_v, name, VALUE, number)
    return torch.ops.dit.gather(query * 0.5 + key * value, name, number)


def compile_layers(backend: str) -> list[int]:
    torch._inductor.config.compile_threads = 1  # a fork has no pool of compilers
    group = Group()
    case = CASES[1]
    name = make(group, "compiled", case, torch.float32, CPU, policy=b"fp8", layers=8)
    how = preparation(case, 1, 1, torch.float32, case.heads)
    x = source(name, case, QUERY, 1, torch.float32, group.rank)
    compiled = torch.compile(lambda x, number: layer(x, name, number, how), fullgraph=True, backend=backend)
    graphs = []
    with torch.inference_mode():
        for number in range(5):  # one graph serves all layers: their number is a symbol
            group.library.reset(name)
            right = layer(x, name, number, how)
            group.library.reset(name)
            torch.testing.assert_close(compiled(x, number), right, rtol=1e-5, atol=1e-5)
            graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    group.close()
    return graphs


def code_of_joint_sources() -> str:
    """Inductor's code where two streams' rows are put together, as it does that on GPUs."""
    torch._inductor.config.compile_threads = 1
    if hasattr(torch._inductor.config, "force_pointwise_cat"):  # not in torch 2.4
        torch._inductor.config.force_pointwise_cat = True
    group = Group()
    assert dit_torch._inductor.keep_apart()
    case = CASES[1]
    name = make(group, "joint", case, torch.float32, CPU)
    x = source(name, case, QUERY, 1, torch.float32, group.rank)
    identity = torch.eye(case.head_dim)

    def projected(x: torch.Tensor) -> torch.Tensor:
        a, b = (x @ identity).split(x.shape[1] // 2, dim=1)
        return torch.cat([b, a], dim=1)

    def joint(x: torch.Tensor) -> torch.Tensor:
        of_v = torch.ops.dit.start(projected(x), name, VALUE, 0)
        of_q = torch.ops.dit.start(projected(x * 2), name, QUERY, 0, after=of_v)
        of_k = torch.ops.dit.start(projected(x * 3), name, KEY, 0, after=of_q)
        beside = torch.relu(x @ identity)
        v = torch.ops.dit.finish(of_v, name, VALUE, 0, of_k)
        q = torch.ops.dit.finish(of_q, name, QUERY, 0, of_k)
        k = torch.ops.dit.finish(of_k, name, KEY, 0, of_k)
        return torch.ops.dit.gather(q * 0.5 + k * v, name, 0) + beside

    with torch.inference_mode():
        right = joint(x)
        result, code = torch._inductor.utils.run_and_get_code(torch.compile(joint, fullgraph=True), x)
        torch.testing.assert_close(result, right, rtol=1e-5, atol=1e-5)
    group.close()
    return code[0]


def test_inductor_leaves_memory_and_order() -> None:
    """It would put the next tensor into the memory of one that was just started, and projections first."""
    (code,) = ranks.run(1, code_of_joint_sources)
    started = re.findall(r"ops\.dit\.start\.default\((?:reinterpret_tensor\()?(buf\d+).*?'joint', (\d)", code)
    assert len({buffer for buffer, _ in started}) == 3, code
    for buffer, what in started:
        finish = re.search(rf"ops\.dit\.finish\.default\(buf\d+, 'joint', {what}", code)
        freed = re.search(rf"del {buffer}\b", code)
        assert finish is not None and freed is not None and freed.start() > finish.start(), code
    order = re.findall(r"extern_kernels\.(mm)\(|ops\.dit\.(\w+)\.default\(", code)
    words = [product or operator for product, operator in order]
    assert words == ["mm", "start"] * 3 + ["mm"] + ["finish"] * 3 + ["gather"], words


@pytest.mark.parametrize(("backend", "size"), [("aot_eager", 2), ("inductor", 1)])
def test_one_graph_serves_all_layers(backend: str, size: int) -> None:
    for graphs in ranks.run(size, compile_layers, backend, timeout=400):
        assert graphs[1:] == [graphs[1]] * 4 and graphs[1] <= 2


def check_fakes() -> None:
    group = Group()
    case = CASES[2]
    name = make(group, "fakes", case, torch.bfloat16, CPU)
    how = preparation(case, 1, 1, torch.bfloat16, case.heads)
    x = [source(name, case, what, 1, torch.bfloat16, group.rank) for what in range(4)]
    packed = torch.stack(x[:3], 2)
    tests = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static")
    for what in range(4):
        given = how if what == QUERY else {}
        torch.library.opcheck(
            torch.ops.dit.exchange.default, (x[what], name, what, 0), given, test_utils=tests
        )
    parts = [packed[:, :, part] for part in range(3)]
    torch.library.opcheck(torch.ops.dit.scatter_qkv.default, (*parts, name, 0), test_utils=tests)
    torch.library.opcheck(torch.ops.dit.gather.default, (x[OUTPUT], name, 0), test_utils=tests)
    rows = torch.arange(12.0).view(6, 2)
    torch.library.opcheck(
        torch.ops.dit.all_to_all.default, (torch.empty(6, 2), rows, [], [], group.name), test_utils=tests
    )
    torch.library.opcheck(torch.ops.dit.all_gather.default, (rows, 1, 2, group.name), test_utils=tests)
    group.close()


def test_fakes_tell_the_truth() -> None:
    ranks.run(1, check_fakes)


def put_together() -> int:
    group = Group()
    compared = 0
    for total in (1, 4, 7, 30):
        for sizes, dim in (((1, total, 3), 1), ((total, 2), 0), ((3, total, 2), 1), ((2, 3, total), 2)):
            for dtype in (torch.float32, torch.bfloat16, torch.uint8):
                whole = torch.arange(torch.Size(sizes).numel()).to(dtype).view(sizes)
                part = even_part(total, group.size, group.rank)
                mine = whole.narrow(
                    dim, part.start, len(part)
                )  # not dense where the dimension is an inner one
                found = torch.ops.dit.all_gather(mine, dim, total, group.name)
                assert found.is_contiguous() and torch.equal(found, whole), (total, sizes, dim, dtype)
                compared += 1
    group.close()
    return compared


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_all_gather_puts_parts_together(size: int) -> None:
    assert ranks.run(size, put_together) == [4 * 4 * 3] * size


def refuse_to_put_together() -> list[str]:
    group = Group()
    words = []
    for x, dim, total in ((torch.empty(2, 3), 2, 6), (torch.empty(2, 3), -1, 6), (torch.empty(2, 5), 1, 7)):
        try:
            torch.ops.dit.all_gather(x, dim, total, group.name)
        except RuntimeError as error:
            words.append(str(error))
    group.close()
    return words


def test_all_gather_refuses_other_sizes() -> None:
    for rank, words in enumerate(ranks.run(2, refuse_to_put_together)):
        assert "dim is 2: expected 0 or more and less than 2" in words[0] and "dim is -1" in words[1]
        assert f"[2, 5]: expected {3 + rank} on dimension 1, rank {rank}'s part of 7 on 2 ranks" in words[2]


def report_of_a_layer() -> dict:
    group = Group()
    case = CASES[0]
    name = make(group, "reported", case, torch.float32, CPU)
    x = source(name, case, QUERY, 1, torch.float32, group.rank)
    layer(x, name, 0, {})
    told = group.library.report(name)
    group.close()
    return told


def test_report_counts_bytes() -> None:
    for told in ranks.run(2, report_of_a_layer):
        assert told["plugin"] == "bootstrap" and told["started"] == [1, 1, 1, 1]
        # Half of the rows of Q, K and V have half of their heads elsewhere, and so has the output.
        assert told["full_bytes"] == 4 * 20 * 2 * 8 * 4
        assert sum(level["sent_bytes"] for level in told["levels"]) == told["full_bytes"]


def refuse() -> list[str]:
    group = Group()
    words = []
    name = make(group, "refused", CASES[0], torch.float32, CPU)
    x = source(name, CASES[0], QUERY, 1, torch.float32, group.rank)
    for call in (
        lambda: torch.ops.dit.exchange(x, "nobody", QUERY, 0),
        lambda: torch.ops.dit.exchange(x[:, 1:], name, QUERY, 0),
        lambda: torch.ops.dit.finish(x, name, VALUE, 0),
        lambda: make(group, "refused", CASES[0], torch.float32, CPU),
        lambda: torch.ops.dit.exchange(x, name, QUERY, 0, rope=1, cosine=x, sine=x),
    ):
        try:
            call()
        except RuntimeError as error:
            words.append(str(error))
    group.close()
    return words


def test_errors_name_argument_value_and_expectation() -> None:
    (words,) = ranks.run(1, refuse)
    assert 'exchange = "nobody" is not known: expected one of: refused' in words[0]
    assert "x (query) is a tensor [1, 39, 4, 8]" in words[1] and "expected [1, 40, 4, 8]" in words[1]
    assert "nothing is under way of value" in words[2]
    assert 'exchange = "refused" is in use' in words[3]
    assert "cosine and sine are tensors [1, 40, 4, 8]" in words[4] and "with half of the last" in words[4]
