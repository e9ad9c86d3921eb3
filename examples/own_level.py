"""A first-person level of your own: an apple that is seen only until it is found for the first time.

    python examples/own_level.py
    gtrxl train own_level:Orchard --from examples --net.channels tiny

A level says how its world is built and what a step has led to. Walking, looking, the clock, the picture and the spaces are the
base's. Pictures are 24 x 32 pixels here, which a CPU learns from in reasonable time.
"""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray
from PIL import Image

import gtrxl
from gtrxl.tasks.drawing.pictures import episode_frames, episode_gif
from gtrxl.tasks.episodes import record
from gtrxl.tasks.first_person.actions import LAB_ACTIONS, Command
from gtrxl.tasks.first_person.level import Level, Verdict, World, seconds, silence
from gtrxl.tasks.first_person.motion import touching
from gtrxl.tasks.first_person.rooms import any_heading, choose, facing, paint, room, scatter, standing
from gtrxl.tasks.first_person.scene import COLOURS, SHAPES, Scene
from gtrxl.tasks.players.scripted import RandomPlayer


class Found(eqx.Module):
    """What the level itself keeps."""

    before: Bool[Array, ""]
    """Whether the apple was found already: from then on it is not seen."""


@dataclasses.dataclass(frozen=True)
class Orchard(Level):
    """One room, one apple. Walking over it pays 1 and puts one elsewhere; the apple stays where it is, and is not seen again.

    Where it was can be told by the walls alone: the northern one is red, the others are green.
    """

    height: int = 24
    width: int = 32
    cells: int = 4
    """Along a side of the room."""
    episode_steps: int = seconds(20)

    actions: ClassVar[dict[str, tuple[int, ...]]] = {
        name: LAB_ACTIONS[name] for name in ("forward", "large look left", "large look right")
    }

    def build(self, key: PRNGKeyArray) -> World:
        """The world at the start of an episode."""
        place_key, heading_key = jax.random.split(key)
        apple, start = scatter(place_key, 2, rows=self.cells, columns=self.cells)
        wall, floor = room(self.cells, self.cells, wall=paint("green", "stripes"), floor=paint("orange", "checks"))
        wall = wall.at[0].set(paint("red", "bricks"))
        shape, colour = jnp.array([SHAPES.index("apple")]), jnp.array([COLOURS.index("red")])
        objects = standing(apple[None], shape, colour, size=0.6)
        scene = Scene(wall=wall, floor=floor, sky=jnp.int32(COLOURS.index("white")), objects=objects)
        body = facing(start, any_heading(heading_key))
        return World(scene=scene, body=body, own=Found(before=jnp.zeros((), bool)), instruction=silence())

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """The rules, after the body has moved."""
        place_key, heading_key = jax.random.split(key)
        apple = dataclasses.replace(world.scene.objects, there=jnp.ones(1, bool))  # also where it is not seen any more
        found = touching(world.body, apple)[0]
        elsewhere = scatter(place_key, 1, rows=self.cells, columns=self.cells, away=apple.place[0])[0]
        before = world.own.before | found
        world = World(
            scene=eqx.tree_at(lambda of: of.objects.there, world.scene, ~before[None]),
            body=choose(found, facing(elsewhere, any_heading(heading_key)), world.body),
            own=Found(before=before),
            instruction=world.instruction,
        )
        return Verdict(world=world, reward=found.astype(jnp.float32), terminated=jnp.zeros((), bool))


def draw(task: Orchard, folder: Path, *, seed: int = 0, frames: int = 120) -> None:
    """Writes an episode of random actions as a GIF, with the room from above beside it, and six moments of it as a strip."""
    folder.mkdir(parents=True, exist_ok=True)
    episode = record(task, RandomPlayer(task), jax.random.key(seed))
    shown = episode_frames(task, episode._replace(states=episode.states[:frames]), secret=True)
    episode_gif(shown, folder / "orchard.gif", fps=15)
    Image.fromarray(np.concatenate(shown[:: max(1, len(shown) // 6)][:6])).save(folder / "orchard.png")


def main(*, episode_steps: int = seconds(20), pictures: str = "runs/orchard", frames: int = 120, **changes: Any) -> gtrxl.Run:
    """Draws an episode, then trains."""
    task = Orchard(episode_steps=episode_steps)
    draw(task, Path(pictures), frames=frames)
    run = gtrxl.train(task=task, **changes)
    print(f"{run.config.task}: mean return {run.mean_return}; {pictures}/orchard.gif shows what it is about")
    return run


if __name__ == "__main__":
    main(net={"channels": "tiny"}, steps=500_000)
