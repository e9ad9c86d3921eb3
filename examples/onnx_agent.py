"""Play an exported agent with onnxruntime alone: neither JAX nor PyTorch computes its steps.

    gtrxl export RUN --format onnx --to agent.onnx        # or zoo:grid-numpad for RUN
    python examples/onnx_agent.py agent.onnx

The memory is what comes out as `next.*`, and goes in again as `state.*`. An episode begins with `reset` true.
"""

import sys

import gymnasium
import numpy as np
import onnxruntime  # pyright: ignore[reportMissingImports]

import gtrxl  # noqa: F401 (its tasks for Gymnasium)

TYPES = {"tensor(float)": np.float32, "tensor(int32)": np.int32}


def main(path: str, task: str = "gtrxl/GridNumpad-v0", *, episodes: int = 5, seed: int = 0) -> list[float]:
    """The returns of some episodes."""
    session, env = onnxruntime.InferenceSession(path), gymnasium.make(task)
    outputs = [port.name for port in session.get_outputs()]
    pieces = [port for port in session.get_inputs() if port.name.startswith("state.")]
    state = {port.name: np.zeros([1, *port.shape[1:]], TYPES[port.type]) for port in pieces}
    returns = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed + episode)
        reset, over, total = True, False, 0.0
        while not over:
            said = session.run(None, {"observation": observation[None], "reset": np.array([reset]), **state})
            named = dict(zip(outputs, map(np.asarray, said), strict=True))
            state = {name.replace("next.", "state."): part for name, part in named.items() if name.startswith("next.")}
            observation, reward, terminated, truncated, _ = env.step(named["action"][0])
            reset, over, total = False, terminated or truncated, total + float(reward)
        returns.append(total)
    return returns


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
