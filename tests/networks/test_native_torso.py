"""Pictures through the native library, beside the same ResNet through XLA and beside a slow one in float64."""

import os
import re
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.cores import kernels
from gtrxl.networks import vision
from gtrxl.networks.encoder import Encoder
from gtrxl.networks.kernels import agreement, torso
from gtrxl.networks.vision import ResNet
from gtrxl.runs.config import CHANNELS
from gtrxl.tasks.specs import ObservationSpec
from tests.marks import few
from tests.networks.test_vision import slow_resnet

ROOT = Path(__file__).parents[2]
CLOSE = 2e-5  # float32, relative to the largest number

pytestmark = pytest.mark.skipif(not kernels.available(torso.TORSO), reason="no C++ compiler on this machine")


def random_net(size: tuple[int, int], channels: tuple[int, ...], *, colours: int = 3, features: int = 3) -> ResNet:
    """Weights and biases of a size that keeps the size of what passes through, biases not zero. Compiles nothing."""
    random = np.random.default_rng(1)
    shapes = eqx.filter_eval_shape(
        lambda key: ResNet(size, colours=colours, channels=channels, features=features, key=key), jax.random.key(0)
    )

    def drawn(leaf):
        spread = 0.2 if leaf.ndim == 1 else 1.5 / np.sqrt(np.prod(leaf.shape[:-1]))
        return jnp.asarray(spread * random.standard_normal(leaf.shape), jnp.float32)

    return jax.tree.map(drawn, shapes)


def pictures(number: int, size: tuple[int, int], colours: int = 3) -> jax.Array:
    """Noise, the extremes, and planes of one colour, where many numbers are equal and share the pool's gradient."""
    drawn = np.random.default_rng(2).integers(0, 256, (number, *size, colours), np.uint8)
    drawn[1::4] = 0
    drawn[2::4] = 255
    drawn[3::4, : size[0] // 2] = 7
    return jnp.asarray(drawn)


def native(sections, images):
    return torso.through_sections(vision.through_sections, sections, images)


def learned(form, sections, images, wish):
    """What a form gives, and the gradient of its weights."""

    @jax.jit
    def run(sections, images, wish):
        out, back = jax.vjp(lambda sections: form(sections, images), sections)
        return out, back(wish)[0]

    return run(sections, images, wish)


def assert_near(ours, theirs):
    largest = max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(theirs))
    for (path, mine), other in zip(jax.tree.leaves_with_path(ours), jax.tree.leaves(theirs), strict=True):
        error = float(jnp.abs(mine - other).max()) / max(float(jnp.abs(other).max()), 1e-3 * largest)
        assert error < CLOSE, f"{jax.tree_util.keystr(path)} differs by {error:.1e}"


CASES = [
    # Fewer channels than a vector has: two and four pictures side by side, the last of them with nobody beside it.
    (CHANNELS["tiny"], (9, 12), 7, 3),
    ((2, 5), (5, 7), 6, 1),
    (CHANNELS["small"], (13, 10), 4, 3),
    (CHANNELS["paper"], (6, 9), 2, 3),
    ((20, 40), (7, 5), 1, 4),
    ((8,), (1, 1), 1, 3),
    ((33,), (3, 2), 5, 2),
    (CHANNELS["tiny"], (24, 32), 5, 3),
    (CHANNELS["small"], (24, 32), 33, 3),
    (CHANNELS["small"], (36, 48), 3, 3),
    (CHANNELS["paper"], (24, 32), 3, 3),
    (CHANNELS["small"], (72, 96), 2, 3),
]


@pytest.mark.parametrize(("channels", "size", "number", "colours"), few(CASES, keep=lambda place, _: place < 6))
def test_values_and_gradients_are_those_of_xla(channels, size, number, colours):
    sections, images = random_net(size, channels, colours=colours).sections, pictures(number, size, colours)
    shape = jax.eval_shape(vision.through_sections, sections, images).shape
    wish = jnp.asarray(np.random.default_rng(3).standard_normal(shape), jnp.float32)
    ours, theirs = (learned(form, sections, images, wish) for form in (native, vision.through_sections))
    assert float(jnp.abs(theirs[0]).max()) > 0.1
    assert_near(ours[0], theirs[0])
    assert_near(ours[1], theirs[1])


def test_the_gradient_is_the_slope_of_a_slow_resnet_in_float64():
    """Central differences of the loop-by-loop version, along a random direction for each weight and bias."""
    random = np.random.default_rng(4)
    net, images = random_net((5, 6), (3, 4), features=8), pictures(9, (5, 6))[::4]
    wish = random.standard_normal((3, 8))
    assert net.native(images.dtype)
    gradient = jax.jit(jax.grad(lambda net: jnp.sum(net(images) * jnp.asarray(wish, jnp.float32))))(net)
    leaves, tree = jax.tree.flatten(jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), net))

    def score(leaves: list) -> float:
        net = jax.tree.unflatten(tree, leaves)
        return sum(float(slow_resnet(net, np.asarray(image) / 255) @ wanted) for image, wanted in zip(images, wish, strict=True))

    slopes, expected = [], []
    for place, by_leaf in enumerate(jax.tree.leaves(gradient)):
        direction = random.standard_normal(by_leaf.shape)
        moved = [[*leaves[:place], leaves[place] + sign * 1e-5 * direction, *leaves[place + 1 :]] for sign in (1, -1)]
        expected.append((score(moved[0]) - score(moved[1])) / 2e-5)
        slopes.append(np.sum(np.asarray(by_leaf, np.float64) * direction))
    np.testing.assert_allclose(slopes, expected, rtol=1e-3, atol=1e-4)
    assert np.abs(expected).min() > 1e-4


def test_what_is_made_again_is_what_was_kept_whatever_the_threads(monkeypatch):
    """The same bits: of pictures too many to keep, on one thread, on four."""
    sections, images = random_net((9, 8), (4, 16)).sections, pictures(19, (9, 8))
    wish = jnp.asarray(np.random.default_rng(3).standard_normal((19, 3, 2, 16)), jnp.float32)
    kept = learned(native, sections, images, wish)
    for name, value in (("MOST_KEPT", 0), ("threads", 1), ("threads", 4)):
        with monkeypatch.context() as changed:
            changed.setattr(*((torso, name, value) if name == "MOST_KEPT" else (kernels, name, lambda: np.int64(value))))
            jax.tree.map(np.testing.assert_array_equal, learned(native, sections, images, wish), kept)


def test_pictures_in_loops_and_under_vmap():
    """As acting has them: a step of a scan, and a caller's own axis. Every picture for itself."""
    net, images = random_net((6, 7), (8, 4)), pictures(6, (6, 7))
    whole = np.asarray(jax.jit(lambda images: net(images))(images))
    in_time = jax.jit(lambda images: jax.lax.scan(lambda _, some: (None, net(some)), None, images)[1])
    np.testing.assert_allclose(in_time(images.reshape(3, 2, 6, 7, 3)).reshape(6, -1), whole, atol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(net))(images), whole, atol=1e-6)
    each = jax.jit(jax.vmap(jax.grad(lambda net, image: jnp.sum(net(image))), in_axes=(None, 0)))(net, images)
    together = jax.jit(jax.grad(lambda net: jnp.sum(net(images))))(net)
    assert_near(jax.tree.map(lambda leaf: leaf.sum(axis=0), each), together)


def test_what_is_not_a_number_is_not_lost():
    """Neither in the pool nor in a ReLU: a network that has broken is seen to be broken."""
    sections, images = random_net((6, 8), (4, 4)).sections, pictures(1, (6, 8))
    kernel = sections[0].conv.kernel.at[0, 0, 0, 0].set(np.nan)
    broken = eqx.tree_at(lambda sections: sections[0].conv.kernel, sections, kernel)
    ours, theirs = (np.asarray(jax.jit(form)(broken, images)) for form in (native, vision.through_sections))
    assert np.isnan(theirs).any()
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))


def test_only_bytes_and_our_own_classes_go_through_the_library():
    class Own(vision.Conv):
        def __init__(self, like: vision.Conv):
            self.kernel, self.bias = like.kernel, like.bias

        def __call__(self, x):
            return 2 * super().__call__(x)

    net, images = random_net((6, 8), (4,)), pictures(2, (6, 8))
    assert net.native(jnp.uint8)
    assert not net.native(jnp.float32)
    changed = eqx.tree_at(lambda net: net.sections[0].conv, net, Own(net.sections[0].conv))
    assert not changed.native(jnp.uint8)
    assert float(jnp.abs(changed(images) - net(images)).max()) > 1e-3


def test_a_changed_formula_is_noticed_and_used(monkeypatch):
    monkeypatch.setattr(agreement, "_found", [])
    monkeypatch.setattr(vision, "max_pool", lambda x: x[..., ::2, ::2, :])
    net, images = random_net((6, 8), (4,)), pictures(2, (6, 8))
    with pytest.warns(UserWarning, match=r"its Python form of a ResNet differ by \S+ of the largest number; going on"):
        assert not net.native(jnp.uint8)
    np.testing.assert_allclose(net(images), net(images / jnp.float32(255)), atol=1e-5)


def test_a_lowering_for_other_platforms_does_without_the_library():
    net, images = random_net((6, 8), (4,)), pictures(2, (6, 8))
    traced = jax.jit(jax.grad(lambda net, images: jnp.sum(net(images)))).trace(net, images)
    assert len(re.findall("@gtrxl_torso", traced.lower(lowering_platforms=("cpu",)).as_text())) == 2
    assert "gtrxl_torso" not in traced.lower(lowering_platforms=("tpu",)).as_text()


def test_very_many_pictures_need_no_groups(monkeypatch):
    """The encoder cuts them for XLA; the library sees to its memory by itself."""
    from gtrxl.networks import encoder as encoders

    monkeypatch.setattr(encoders, "MOST_KEPT", 0)
    spec = ObservationSpec(vector=0, images=(("image", (6, 8, 3)),), texts=())
    encoder = eqx.filter_eval_shape(lambda key: Encoder(spec, 4, channels=(2,), features=3, key=key), jax.random.key(0))
    seen = {"image": jax.ShapeDtypeStruct((5, 6, 8, 3), jnp.uint8)}
    assert "scan" not in str(eqx.filter_make_jaxpr(lambda encoder, seen: encoder(seen))(encoder, seen)[0])


def main() -> None:
    """On two devices, each with its pictures: the gradient of one."""
    net, images = random_net((6, 7), (8, 4)), pictures(10, (6, 7))
    mesh = jax.sharding.Mesh(np.asarray(jax.devices()), ("device",))
    assert mesh.size == 2
    here, everywhere = jax.sharding.PartitionSpec("device"), jax.sharding.PartitionSpec()

    def slope(net, images):
        return jax.grad(lambda net: jnp.sum(net(images)))(net)

    def spread(net, images):
        return jax.lax.psum(slope(net, images), "device")

    both = jax.jit(jax.shard_map(spread, mesh=mesh, in_specs=(everywhere, here), out_specs=everywhere, check_vma=False))
    assert "gtrxl_torso_backward" in both.lower(net, images).as_text()
    assert_near(both(net, images), jax.jit(slope)(net, images))


def test_two_devices_give_the_gradient_of_one():
    """In a process of its own, because devices are counted once per process."""
    given = {**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"}
    program = [sys.executable, "-m", "tests.networks.test_native_torso"]
    done = subprocess.run(program, cwd=ROOT, env=given, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    main()
