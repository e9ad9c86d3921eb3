"""A Gymnasium task in a process of its own: for those that can end the process they live in, and of which it holds only one."""

import contextlib
import multiprocessing
import pickle
import signal
from multiprocessing.connection import Connection
from typing import Any

import gymnasium

from gtrxl.gym.child_process import Child, is_stopped
from gtrxl.gym.errors import in_one_line
from gtrxl.gym.task import GymTask
from gtrxl.tasks.errors import TaskError

GRACE = 5.0
"""Seconds that the process has to end by itself."""
LOOK_EVERY = 0.5
"""Seconds between two looks at a process that does not answer."""
STOPPED = 5.0
"""Seconds for which it may be stopped (SIGSTOP)."""


class IsolatedEnv(gymnasium.Env):
    """The environment that `task.make()` makes, stepped through a pipe. When its process ends, the call that waits raises."""

    def __init__(self, task: GymTask, *, render_mode: str | None = None):
        self._name = task.name
        self.render_mode = render_mode
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = Child(_serve, (theirs, pickle.dumps(task), render_mode), name="gtrxl-task")
        self._process.start()
        theirs.close()
        try:
            self.observation_space, self.action_space = self._answer()
        except BaseException:
            self.close()
            raise

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """As the task's."""
        super().reset(seed=seed)
        return self._ask("reset", {"seed": seed, "options": options})

    def step(self, action: Any) -> Any:
        """As the task's."""
        return self._ask("step", {"action": action})

    def render(self) -> Any:
        """As the task's."""
        return self._ask("render", {})

    def close(self) -> None:
        """Ends the process; one that does not want to is killed."""
        with contextlib.suppress(OSError):
            self._pipe.send(None)
            self._process.join(GRACE)
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _ask(self, call: str, arguments: dict[str, Any]) -> Any:
        try:
            self._pipe.send((call, arguments))
        except OSError:
            raise self._gone() from None
        return self._answer()

    def _answer(self) -> Any:
        try:
            self._wait()
            fine, answer = self._pipe.recv()
        except (EOFError, OSError):
            raise self._gone() from None
        if not fine:
            raise TaskError(answer)
        return answer

    def _wait(self) -> None:
        """Until it answers. It may think as long as it likes, but not stand still: the caller's clock may be an hour's."""
        looks = 0
        while not self._pipe.poll(LOOK_EVERY):
            looks = looks + 1 if is_stopped(self._process.pid or 0) else 0
            if looks * LOOK_EVERY >= STOPPED:
                self._process.kill()
                raise TaskError(f"the process of {self._name} was stopped for {STOPPED:g} s and has been killed; who stopped it?")

    def _gone(self) -> TaskError:
        self._process.join(GRACE)
        code = self._process.exitcode
        return TaskError(f"the process of {self._name} ended with code {code}; what it printed may say why")


def _serve(pipe: Connection, task: bytes, render_mode: str | None) -> None:
    """The process: one call after the other, until told to end or left alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    env = None
    try:
        env = pickle.loads(task).make(render_mode=render_mode)
        pipe.send((True, (env.observation_space, env.action_space)))
        while (asked := pipe.recv()) is not None:
            call, arguments = asked
            pipe.send((True, getattr(env, call)(**arguments)))
    except (EOFError, OSError):
        pass  # nobody listens any more
    except Exception as error:
        said = str(error) if isinstance(error, TaskError) else f"raised {type(error).__name__}: {in_one_line(error)}"
        with contextlib.suppress(OSError):
            pipe.send((False, said))
    finally:
        if env is not None:
            env.close()
