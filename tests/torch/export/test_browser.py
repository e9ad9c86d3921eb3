"""The page of examples/browser in a real Chromium: its task is ours, its agent does what `agent.act` does, and it remembers."""

import functools
import http.server
import os
import shutil
import threading
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxscript")

import gtrxl
from gtrxl.tasks.numpad.grid import GridState
from gtrxl.tasks.numpad.pads import Pads
from tests.browser import CHROMIUM, Browser

PAGE = Path(__file__).parents[3] / "examples" / "browser"
MODULES = Path(os.environ.get("GTRXL_NODE_MODULES", PAGE / "node_modules"))
"""Where `npm install` put onnxruntime-web."""
AGENT = "zoo:grid-numpad"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@pytest.fixture(scope="module")
def served(tmp_path_factory, exported):
    """The page beside an exported agent, on this machine alone."""
    home = tmp_path_factory.mktemp("page") / "page"
    shutil.copytree(PAGE, home, ignore=shutil.ignore_patterns("node_modules", "*.onnx*"))
    (home / "node_modules").symlink_to(MODULES)
    for name in ("agent.onnx", "agent.onnx.json"):
        shutil.copy(exported / name, home)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=home)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
@pytest.mark.skipif(not (MODULES / "onnxruntime-web").exists(), reason="npm install in examples/browser, or GTRXL_NODE_MODULES")
def test_the_agent_plays_and_remembers(served):
    with Browser() as browser:
        browser.size(390, 800, phone=True)
        browser.open(f"{served}/?greedy")
        browser.wait("document.readyState == 'complete' && window.episodes")
        browser.value("document.getElementById('pace').value = 60")
        browser.wait("episodes.length >= 2")
        episodes = browser.value("episodes.slice(0, 2)")
        assert len(browser.picture()) > 10_000
        assert browser.value("document.documentElement.scrollWidth <= innerWidth")
        browser.click("#memory")
        browser.value("window.begun = episodes.length + 1")  # the one under way has seen both
        browser.wait("episodes.length > begun + 1")
        forgetful = browser.value("episodes.slice(begun)")
        assert not browser.complaints
        assert all(request.startswith((served, "data:")) for request in browser.requests)
    agent, task = gtrxl.load(AGENT), gtrxl.make_task("grid-numpad")
    for episode in episodes:
        check_episode(agent, task, episode)
    scores = [[sum(step["reward"] for step in each["steps"]) for each in some] for some in (episodes, forgetful)]
    assert min(scores[0]) >= 35
    assert np.mean(scores[1]) < 30


def check_episode(agent, task, episode):
    """The rules are the task's, and the actions the agent's likeliest."""
    row, column = divmod(episode["place"], 2)
    order = jnp.asarray(episode["order"], jnp.int8)
    pads = Pads(order=order, lit=jnp.int32(0), paid=jnp.int32(0))
    world = GridState(pads=pads, row=jnp.int32(row), column=jnp.int32(column), elapsed=jnp.int32(0))
    seen, state = episode["steps"][0]["observation"], agent.initial_state()
    assert len(episode["steps"]) == task.episode_steps
    for step in episode["steps"]:
        np.testing.assert_array_equal(step["observation"], seen)
        action, state = agent.act(np.array(seen), state, greedy=True)
        assert int(action) == step["action"]
        world, after = task.step(world, jnp.int32(step["action"]))
        assert float(after.reward) == step["reward"]
        assert bool(after.truncated) == (step is episode["steps"][-1])
        seen = np.asarray(after.observation)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
@pytest.mark.skipif(not (MODULES / "onnxruntime-web").exists(), reason="npm install in examples/browser, or GTRXL_NODE_MODULES")
def test_a_page_without_an_agent_says_what_to_do(served):
    with Browser() as browser:
        browser.open(f"{served}/?agent=nobody.onnx")
        browser.wait("document.readyState == 'complete'")
        browser.wait("document.getElementById('error').textContent.includes('export an agent into this folder first')")
