"""The sphere against MuJoCo, and against what holds for any sphere.

MuJoCo gets the same sphere, floor, rim, forces and friction, once with the same time step and once with one ten times finer.
What differs:

- Its contacts are springs. A landing takes some hundredths of a second there and one step here, so velocities are compared up to
  a collision and from 0.12 s after it.
- A sliding contact of MuJoCo's presses the bodies apart (its friction cone is relaxed to be convex): a sphere that slides is
  lifted by up to 13 mm at the same step, and grips less for that time. At the finer step it is half a millimetre.
- Its sliding friction and rolling resistance share one cone; here each has its own limit. So what resists the roll is a little
  weaker there while the sphere is pushed hard.
- Both move the sphere by its new velocity, which is off by half a step's change: against the finer step that is up to 13 mm in
  the plane and 17 mm in the height of a jump. At the same step the heights of a flight are equal.

The numbers below say how far apart they may be: places within 1.5 cm, where the sphere goes up to two metres in a second.
S steps. A trajectory's row is position (3), velocity (3), roll (2).
"""

# MuJoCo has no types for what it takes from C.
# pyright: reportAttributeAccessIssue=false

import dataclasses
import functools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from jaxtyping import Float

from gtrxl.tasks.numpad import sphere
from gtrxl.tasks.numpad.sphere import GRAVITY, INERTIA, JUMP, PHYSICS_STEP, TOP_HEIGHT, TOP_SPEED, advance, jump, moving

STEPS = 100
FAR = 9.0
WORLD = """
<mujoco>
  <option timestep="{step}" gravity="0 0 -{gravity}" integrator="Euler" cone="elliptic" impratio="10"
          iterations="200" tolerance="1e-12"/>
  <worldbody>
    <geom name="floor" type="plane" size="9 9 1"/>
    <geom name="rim" type="plane" size="9 9 1" pos="{rim} 0 0" zaxis="-1 0 0"/>
    <body pos="0 0 {radius}">
      <joint type="free"/>
      <geom name="ball" type="sphere" size="{radius}" mass="{mass}" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <contact>
    <pair geom1="ball" geom2="floor" condim="6" friction="{friction} {friction} 1e-5 {rolling} {rolling}"
          solref="{softness} 1" solimp="0.99 0.99 0.001"/>
    <pair geom1="ball" geom2="rim" condim="1" solref="{softness} 1" solimp="0.99 0.99 0.001"/>
  </contact>
</mujoco>
"""


@dataclasses.dataclass(frozen=True)
class Motion:
    """How it starts on the floor, how it is pushed, when it jumps, and where the rim is."""

    velocity: tuple[float, float] = (0, 0)
    roll: tuple[float, float] = (0, 0)
    pushes: tuple[tuple[int, float, float], ...] = ((STEPS, 0, 0),)
    """Steps, x, y."""
    jumps_at: int | None = None
    reach: float = FAR

    def push(self) -> Float[np.ndarray, "S 2"]:
        return np.concatenate([np.tile(np.array([[x, y]], np.float32), (steps, 1)) for steps, x, y in self.pushes])

    def jump(self):
        return np.arange(STEPS) == (-1 if self.jumps_at is None else self.jumps_at)


_random = np.random.default_rng(0).uniform(-1, 1, (20, 2))
MOTIONS = {
    "free roll": Motion(velocity=(2, 1), roll=(2, 1)),
    "pushed from rest": Motion(pushes=((STEPS, 1, 0.5),)),
    "braked": Motion(velocity=(2.5, 0), roll=(2.5, 0), pushes=((40, -1, 0), (60, 0, 0))),
    "pushed about": Motion(pushes=tuple((5, float(x), float(y)) for x, y in _random)),
    "too little to move it": Motion(pushes=((STEPS, 0.015, 0),)),
    "slides, then rolls": Motion(velocity=(2, 0)),
    "spins, then rolls": Motion(roll=(0, 2)),
    "jump out of a roll": Motion(velocity=(1, 0), roll=(1, 0), jumps_at=0),
    "pushed jump": Motion(pushes=((STEPS, 1, -0.5),), jumps_at=20),
    "into the rim": Motion(velocity=(2, 1), roll=(2, 1), reach=0.4),
}
FINER = {1: 0.02, 10: 0.01}
"""MuJoCo steps in one of ours -> the time constant of its contacts; it takes none shorter than two of its steps."""
METRES = np.array([0.015, 0.015, 0.02])
"""How far apart they may be at any time: x, y, height."""
SPEED = {1: 0.12, 10: 0.07}
SPEED_SLIDING = {1: 0.32, 10: 0.07}
"""How far apart their velocities in the plane may be, in metres per second."""
SPEED_IN_THE_END = 0.02


def _in_mujoco(motion: Motion, finer: int) -> Float[np.ndarray, "S 8"]:
    model = mujoco.MjModel.from_xml_string(
        WORLD.format(
            step=PHYSICS_STEP / finer,
            gravity=GRAVITY,
            rim=motion.reach + sphere.RADIUS,
            radius=sphere.RADIUS,
            mass=sphere.MASS,
            friction=sphere.FRICTION,
            rolling=sphere.ROLLING,
            softness=FINER[finer],
        )
    )
    data = mujoco.MjData(model)
    for _ in range(300):  # until the floor carries it
        mujoco.mj_step(model, data)
    model.dof_damping[:2] = sphere.DRAG
    data.qvel[:] = [*motion.velocity, 0, -motion.roll[1] / sphere.RADIUS, motion.roll[0] / sphere.RADIUS, 0]
    rows, spin = [], np.zeros(3)
    for push, jumps in zip(motion.push(), motion.jump(), strict=True):
        if jumps:
            data.qvel[2] = JUMP
        data.qfrc_applied[:2] = sphere.PUSH * push
        for _ in range(finer):
            mujoco.mj_step(model, data)
        mujoco.mju_rotVecQuat(spin, data.qvel[3:6].copy(), data.qpos[3:7].copy())
        height = data.qpos[2] - sphere.RADIUS
        rows.append([*data.qpos[:2], height, *data.qvel[:3], sphere.RADIUS * spin[1], -sphere.RADIUS * spin[0]])
    return np.array(rows)


def _roll_out(start, pushes, jumps, *, reach):
    def one(state, inputs):
        push, jumps = inputs
        state = advance(jump(state, jumps), push, reach)
        return state, jnp.concatenate([state.position, state.velocity, state.roll])

    return jax.lax.scan(one, start, (pushes, jumps))[1]


_trajectory = jax.jit(_roll_out, static_argnames="reach")


def _here(motion: Motion) -> Float[np.ndarray, "S 8"]:
    start = moving(
        position=jnp.zeros(3), velocity=jnp.array([*motion.velocity, 0], jnp.float32), roll=jnp.array(motion.roll, jnp.float32)
    )
    return np.asarray(_trajectory(start, motion.push(), motion.jump(), reach=motion.reach))


def _apart_from_collisions(ours: Float[np.ndarray, "S 8"], reach: float):
    x, height = ours[:, 0], ours[:, 2]
    collides = ((height == 0) & (np.roll(height, 1) > 0)) | ((x == np.float32(reach)) & (np.roll(x, 1) < x))
    compared = np.ones(STEPS, bool)
    for step in np.flatnonzero(collides):
        compared[max(step - 2, 0) : step + 12] = False
    return compared


@pytest.mark.parametrize("finer", FINER)
@pytest.mark.parametrize("name", MOTIONS)
def test_it_moves_as_in_mujoco(name, finer):
    motion = MOTIONS[name]
    ours, theirs = _here(motion), _in_mujoco(motion, finer)
    away = np.abs(ours - theirs)
    speed = SPEED_SLIDING if "then rolls" in name else SPEED
    compared = _apart_from_collisions(ours, motion.reach)
    assert (away[:, :3].max(axis=0) < METRES).all()
    assert away[compared, 3:5].max() < speed[finer]
    assert away[-1, [3, 4, 6, 7]].max() < SPEED_IN_THE_END


def test_the_height_of_a_flight_is_mujocos_at_the_same_step():
    motion = MOTIONS["jump out of a roll"]
    ours, theirs = _here(motion), _in_mujoco(motion, 1)
    lands = int(np.flatnonzero(ours[:, 2] == 0)[0])
    assert lands == 39  # 2 * JUMP / GRAVITY is 0.408 s; the last whole step above the floor
    np.testing.assert_allclose(ours[:lands, 2], theirs[:lands, 2], atol=6e-5)  # MuJoCo's floor gives by 4e-5 before the jump


@functools.cache
def _many():
    """256 spheres that start anywhere, in any motion, in the air or on the floor; half of them are pushed and jump at random."""
    random = np.random.default_rng(1)
    many, reach = 256, 0.4
    height = np.where(random.random(many) < 0.5, 0, random.uniform(0, TOP_HEIGHT, many))
    position = np.stack([*random.uniform(-reach, reach, (2, many)), height], axis=1)
    velocity = random.uniform(-1, 1, (many, 3)) * [TOP_SPEED, TOP_SPEED, 0]
    roll = random.uniform(-TOP_SPEED, TOP_SPEED, (many, 2))
    pushes = random.uniform(-1, 1, (many, STEPS, 2)).round() * (np.arange(many) < many // 2)[:, None, None]
    jumps = (random.random((many, STEPS)) < 0.1) & (np.arange(many) < many // 2)[:, None]
    to = functools.partial(jnp.asarray, dtype=jnp.float32)
    starts = jax.vmap(lambda p, v, r: moving(position=p, velocity=v, roll=r))(to(position), to(velocity), to(roll))
    trajectories = jax.vmap(functools.partial(_trajectory, reach=reach))(starts, to(pushes), jnp.asarray(jumps))
    first = np.concatenate([position, velocity, roll], axis=1)[:, None]
    return np.concatenate([first, np.asarray(trajectories)], axis=1), reach, many // 2


def test_nothing_leaves_the_platform_or_passes_the_top_speed():
    rows, reach, _ = _many()
    assert np.isfinite(rows).all()
    assert np.abs(rows[..., :2]).max() <= np.float32(reach)
    assert rows[..., 2].min() >= 0
    assert rows[..., 2].max() <= TOP_HEIGHT
    assert np.abs(rows[..., [3, 4, 6, 7]]).max() <= TOP_SPEED * (1 + 1e-6)
    assert np.abs(rows[..., 5]).max() <= JUMP


def test_energy_never_grows_without_a_push():
    rows, _, pushed = _many()
    still = rows[pushed:]
    energy = (still[..., 3:6] ** 2).sum(-1) / 2 + INERTIA * (still[..., 6:] ** 2).sum(-1) / 2 + GRAVITY * still[..., 2]
    assert np.diff(energy, axis=1).max() <= 1e-5
    assert energy[:, -1].max() < 0.02 * energy[:, 0].max()


def test_in_the_end_nothing_slips():
    rows, reach, pushed = _many()
    last = rows[pushed:, -1]
    at_the_rim = np.abs(last[:, :2]) == np.float32(reach)
    assert np.abs(last[:, 3:5] - last[:, 6:])[~at_the_rim].max() < 1e-5


def test_friction_alone_leaves_five_sevenths_of_a_slide(monkeypatch):
    """A classic: a solid sphere set sliding ends up rolling at 5/7 of its speed, whatever the friction."""
    monkeypatch.setattr(sphere, "_LEFT", 1.0)
    monkeypatch.setattr(sphere, "ROLLING", 0.0)
    start = moving(position=jnp.zeros(3), velocity=jnp.array([1.4, 0, 0], jnp.float32), roll=jnp.zeros(2))
    last = _roll_out(start, jnp.zeros((STEPS, 2)), jnp.zeros(STEPS, bool), reach=FAR)[-1]
    np.testing.assert_allclose(last[3:], [1.0, 0, 0, 1.0, 0], atol=1e-5)


def test_it_jumps_from_the_ground_only():
    on_the_floor = moving(position=jnp.zeros(3), velocity=jnp.zeros(3), roll=jnp.zeros(2))
    in_the_air = moving(position=jnp.array([0, 0, 0.1]), velocity=jnp.zeros(3), roll=jnp.zeros(2))
    assert jump(on_the_floor, jnp.array(True)).speed_up == JUMP
    assert jump(on_the_floor, jnp.array(False)).speed_up == 0
    assert jump(in_the_air, jnp.array(True)).speed_up == 0
