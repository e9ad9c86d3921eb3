"""Large products through oneDNN are those of PyTorch, gradients too, however their matrices lie in memory."""

import pytest

torch = pytest.importorskip("torch")

import hypothesis
from hypothesis import strategies as st

import gtrxl.torch
from gtrxl import machine
from gtrxl.torch.cores import products

there = pytest.mark.skipif(
    not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")),
    reason="this PyTorch was built without oneDNN",
)
N, D_IN, D_OUT = 96, 144, 160
LAYOUTS = ("rows", "columns", "part of a larger one", "every other column", "one row again and again")


@pytest.fixture
def taken(monkeypatch):
    """The weights that oneDNN is given, on whatever processor this is."""
    given, onednn = [], torch.ops.mkldnn._linear_pointwise

    def spy(a, b, *rest):
        given.append(b)
        return onednn(a, b, *rest)

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", spy)
    monkeypatch.setattr(products, "by_onednn", lambda: True)
    return given


def drawn(rows, columns, layout):
    if layout == "rows":
        return torch.randn(rows, columns)
    if layout == "columns":
        return torch.randn(columns, rows).mT
    if layout == "part of a larger one":
        return torch.randn(rows, columns + 7)[:, 7:]
    if layout == "every other column":
        return torch.randn(rows, 2 * columns)[:, ::2]
    return torch.randn(1, columns).expand(rows, columns)


def gradients(multiply, x, weight, bias, wish):
    leaves = [each.detach().requires_grad_() for each in (x, weight, bias)]
    y = multiply(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, wish)]


@there
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture], max_examples=20)
@hypothesis.given(layouts=st.tuples(*[st.sampled_from(LAYOUTS)] * 3), seed=st.integers(0, 3))
def test_outputs_and_gradients_are_those_of_pytorch(taken, layouts, seed):
    torch.manual_seed(seed)
    x, weight, wish = drawn(N, D_IN, layouts[0]), drawn(D_IN, D_OUT, layouts[1]), drawn(N, D_OUT, layouts[2])
    bias = torch.randn(D_OUT)
    ours = gradients(products.product, x, weight, bias, wish)
    exact = gradients(lambda x, weight, bias: x @ weight + bias, *(of.double() for of in (x, weight, bias, wish)))
    for one, other in zip(ours, exact, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one.double(), other, rtol=0, atol=2e-6 * float(other.abs().max()) + 1e-12)
    assert len(taken) >= 3
    assert all(weight.is_contiguous() or weight.mT.is_contiguous() for weight in taken)  # others take a thousand times as long
    taken.clear()


@there
def test_a_matrix_may_be_added(taken):
    a, b, plus = torch.randn(N, D_IN), torch.randn(D_IN, D_OUT), torch.randn(N, D_OUT)
    before = plus.clone()
    torch.testing.assert_close(products.multiplied(a, b, plus=plus), a @ b + plus, rtol=1e-5, atol=1e-4)
    assert torch.equal(plus, before)
    assert taken


@there
@pytest.mark.parametrize("gate", ["gru", "sigtanh", "output", "none"])
def test_a_core_learns_the_same_both_ways(taken, monkeypatch, gate):
    core = gtrxl.torch.Transformer(160, d_model=160, layers=2, heads=2, memory=40, gate=gate)
    state, resets = core.initial_state(2), torch.rand(2, 50) < 0.1
    xs, wish = torch.randn(2, 50, 160), torch.randn(2, 50, 160)

    def learned():
        ys, after = core.unroll(xs, state, resets=resets)
        return [ys.detach(), after.inputs, *torch.autograd.grad((ys * wish).sum(), list(core.parameters()))]

    ours = learned()
    assert taken
    monkeypatch.setattr(products, "by_onednn", lambda: False)
    taken.clear()
    for one, other in zip(ours, learned(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-5 * float(other.abs().max()) + 1e-9)
    assert not taken


@there
@pytest.mark.filterwarnings("ignore:TF32")  # PyTorch's own, of the switch
def test_what_else_there_is_goes_through_pytorch(taken, monkeypatch):
    """Small ones, other types, a user who switched oneDNN off, compiled programs and exported ones."""
    x, weight = torch.randn(N, D_IN), torch.randn(D_IN, D_OUT)
    products.product(x[:8], weight)
    products.product(x.double(), weight.double())
    products.product(x.bfloat16(), weight.bfloat16())
    with torch.backends.mkldnn.flags(enabled=False):
        products.product(x, weight)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    products.product(x, weight)
    assert not taken


@pytest.mark.parametrize(("processor", "vectors", "taken"), [
    ("model name\t: AMD EPYC", "AVX512", True),
    ("model name\t: AMD EPYC", "AVX2", False),
    ("model name\t: Intel(R) Xeon(R)\nflags\t\t: amd_dcm", "AVX512", False),
    ("AMD64 Family 26 Model 2 Stepping 1, AuthenticAMD", "AVX512", True),
    ("Intel64 Family 6 Model 85 Stepping 7, GenuineIntel", "AVX512", False),
    ("", "NO AVX", False),
])  # fmt: skip
@there
def test_it_is_for_processors_of_amd_with_wide_vectors(monkeypatch, processor, vectors, taken):
    monkeypatch.setattr(machine, "processor", lambda: processor)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: vectors)
    assert products.by_onednn.__wrapped__() == taken
