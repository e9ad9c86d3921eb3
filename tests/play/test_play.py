"""People play: keys become the right actions, only our own page may play, and a real browser shows what happens."""

import http.client
import json
import re
import signal
import subprocess
import sys
import threading

import gymnasium
import numpy as np
import pytest

from gtrxl.play.game import Game
from gtrxl.play.server import PlayServer
from gtrxl.runs.errors import RunError
from gtrxl.tasks import TaskError, TMaze, make_task
from gtrxl.tasks.first_person.actions import LAB_ACTIONS, MAPPING_ACTIONS, native
from gtrxl.tasks.first_person.controls import HybridControls, TableControls, table_controls
from tests.browser import CHROMIUM, Browser

LAB, LAB_NAMES = table_controls(native(LAB_ACTIONS)), list(LAB_ACTIONS)
MAPPING, MAPPING_NAMES = table_controls(native(MAPPING_ACTIONS)), list(MAPPING_ACTIONS)


@pytest.mark.parametrize(
    ("held", "action"),
    [
        ("forward", "forward"),
        ("backward", "backward"),
        ("step left", "strafe left"),
        ("turn right", "small look right"),
        ("turn left+fast", "large look left"),
        ("forward+turn left", "forward, small look left"),
        ("forward+turn right+fast", "forward, large look right"),
        ("forward+turn right+step right", "forward, small look right"),
        ("look up", "look up"),
        ("look down", "look down"),
        ("fire", "fire"),
        ("turn left+turn right+backward", "backward"),
    ],
)
def test_keys_are_the_nearest_of_the_papers_actions(held, action):
    assert [LAB_NAMES[meant(LAB, held, step)] for step in (0, 1)] == [action] * 2


def meant(controls: TableControls, held: str, step: int = 0) -> int:
    action = controls.action(set(held.split("+")), step=step)
    assert action is not None
    return int(action)


def test_what_cannot_be_done_at_once_is_done_in_turn():
    assert {LAB_NAMES[meant(LAB, "forward+step right", step)] for step in (0, 1)} == {"forward", "strafe right"}


def test_keys_that_cancel_or_only_change_others_mean_nothing():
    assert LAB.action({"forward", "backward"}, step=0) is None
    assert LAB.action({"fast"}, step=0) is None
    assert LAB.action(set(), step=0) is None
    assert "wait" not in [button.name for button in LAB.buttons], "none of the 15 actions does nothing"


def test_a_level_has_only_the_buttons_that_its_actions_answer_to():
    assert [button.name for button in MAPPING.buttons] == ["turn left", "turn right", "look up", "look down", "wait"]
    assert MAPPING_NAMES[meant(MAPPING, "wait")] == "nothing"
    assert MAPPING_NAMES[meant(MAPPING, "look up")] == "look up"
    keys = {button.name: button.keys for button in MAPPING.buttons}
    assert "ArrowUp" in keys["look up"], "nobody walks there, so the arrows look"
    assert "ArrowUp" not in {button.name: button.keys for button in LAB.buttons}["look up"]


@pytest.mark.parametrize("task", ["memory-maze", "rooms_watermaze", "grid-numpad", "numpad", "t-maze", "recall"])
def test_no_key_stands_for_two_buttons_and_every_action_is_one_of_the_task(task):
    made = make_task(task)
    controls = made.controls()
    keys = [key for button in controls.buttons for key in button.keys]
    assert len(keys) == len(set(keys))
    for button in controls.buttons:
        action = controls.action({button.name}, step=0)
        assert made.action_space.contains(action) or button.changes
    with pytest.raises(TaskError, match=r"a button must be one of .*, got 'dance'"):
        controls.action({"dance"}, step=0)


def test_memory_mazes_numbers():
    controls = make_task("memory-maze").controls()
    assert isinstance(controls, HybridControls)

    def numbers(*held: str) -> list[float]:
        action = controls.action(set(held), step=0)
        assert action is not None
        assert action["discrete"].tolist() == [0]
        assert not action["continuous"][4:].any(), "there is no hand"
        return action["continuous"][:4].tolist()

    assert numbers("forward", "step left") == [0, 0, -1, 1]
    assert numbers("turn left") == [-0.25, 0, 0, 0]
    assert numbers("turn right", "fast", "backward") == [1, 0, 0, -1]
    look, up, *_ = numbers("look up")
    assert look == 0
    assert up > 0
    assert numbers("wait") == [0, 0, 0, 0]


def test_a_seed_is_the_episode_that_gymnasium_plays():
    task = TMaze(corridor=3)
    game, env = Game(task, seed=5), gymnasium.make("gtrxl/TMaze-v0", corridor=3, render_mode="rgb_array")
    env.reset(seed=5)
    total, over = 0.0, False
    for step in range(4):
        np.testing.assert_array_equal(game.picture(), np.asarray(env.render()))
        held, action = ("forward", 0) if step < 3 else ("turn left", 1)
        game.step({held})
        _, reward, over, _, _ = env.step(action)
        total += float(reward)
    seen = game.view()
    assert over
    assert (seen["over"], seen["score"], seen["elapsed"]) == (True, total, 4)
    game.step({"forward"})
    assert game.view()["elapsed"] == 4, "nothing follows the end"
    assert (game.finished, game.best) == (1, total)
    game.begin(6)
    assert (game.view()["elapsed"], game.view()["episode"], game.view()["seed"]) == (0, 2, 6)


class Served:
    """A game on a port of its own."""

    def __init__(self, game: Game):
        self.server = PlayServer()
        self.server.game = game
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> PlayServer:
        self.thread.start()
        return self.server

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture(scope="module")
def t_maze():
    with Served(Game(TMaze(corridor=3), seed=2)) as server:
        yield server


def send(server: PlayServer, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    kind = {} if body is None else {"Content-Type": "application/json"}
    connection.request(method, path, body, kind | named)
    answer = connection.getresponse()
    said = answer.read().decode()
    connection.close()
    return answer.status, said


def test_our_own_page_plays(t_maze):
    own = f"http://127.0.0.1:{t_maze.server_port}"
    status, page = send(t_maze, "GET", "/", Origin=own)
    assert status == 200
    assert "http" not in re.sub(r'http-equiv|xmlns="[^"]*"', "", page), "nothing is fetched from elsewhere"
    status, said = send(t_maze, "POST", "/step", '{"held": ["forward"]}', Origin=own)
    assert status == 200
    assert json.loads(said)["elapsed"] == 1
    status, said = send(t_maze, "POST", "/restart", "{}", Host=f"localhost:{t_maze.server_port}")
    assert (status, json.loads(said)["seed"], json.loads(said)["elapsed"]) == (200, 3, 0)
    assert json.loads(send(t_maze, "POST", "/restart", '{"seed": 9}')[1])["seed"] == 9
    assert json.loads(send(t_maze, "GET", "/game")[1])["task"] == "t-maze:corridor=3"


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "message"),
    [
        ("GET", "/", None, {"Host": "evil.example"}, 403, "other names of this server are refused"),
        ("GET", "/game", None, {"Host": "127.0.0.1:1"}, 403, "other names"),
        ("POST", "/step", '{"held": ["forward"]}', {"Origin": "http://evil.example"}, 403, "only the page of this server"),
        ("POST", "/step", '{"held": ["forward"]}', {"Origin": "null"}, 403, "only the page of this server"),
        ("POST", "/step", '{"held": ["forward"]}', {"Content_Type": "text/plain"}, 400, "must be application/json"),
        ("POST", "/step", '{"held": ["dance"]}', {}, 400, "a button must be one of forward, .*, got 'dance'"),
        ("POST", "/step", '{"held": "forward"}', {}, 400, "held must be a list"),
        ("POST", "/step", "[1]", {}, 400, "must be a JSON object"),
        ("POST", "/step", "{", {}, 400, "must be a JSON object"),
        ("POST", "/step", "{}" + " " * 5000, {}, 400, "at most 4096 bytes"),
        ("POST", "/restart", '{"seed": "x"}', {}, 400, "seed must be a whole number, got 'x'"),
        ("POST", "/else", "{}", {}, 404, "nothing here"),
        ("GET", "/../secret", None, {}, 404, "nothing here"),
    ],
)
def test_others_are_refused_in_one_line_and_nothing_happens(t_maze, method, path, body, headers, status, message):
    before = t_maze.game.view()
    got, said = send(t_maze, method, path, body, **headers)
    assert got == status
    assert re.search(message, said)
    assert said.count("\n") == 1
    assert t_maze.game.view() == before


def test_a_port_that_is_taken_is_said(t_maze):
    with pytest.raises(RunError, match=f"port must be free, got {t_maze.server_port}: .*; leave --port out") as caught:
        PlayServer(port=t_maze.server_port)
    assert "\n" not in str(caught.value)
    with pytest.raises(RunError, match="from 0 to 65535, got 99999"):
        PlayServer(port=99999)


def test_the_command_serves_until_ctrl_c_and_says_the_best_score():
    """As a user starts it: its own process, told to stop by the signal of Ctrl-C."""
    line = [
        sys.executable,
        "-c",
        "from gtrxl.cli.main import main; raise SystemExit(main())",
        "play",
        "t-maze:corridor=1",
        "--no-browser",
    ]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "compiling t-maze:corridor=1 ...\n"
        (port,) = re.findall(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
        for held in ("forward", "turn left"):
            connection.request("POST", "/step", json.dumps({"held": [held]}), {"Content-Type": "application/json"})
            score = json.loads(connection.getresponse().read())["score"]
        connection.close()
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert said.strip() == f"t-maze:corridor=1: best score {score:g}, 1 episode played to the end"
    assert complained == ""
    assert process.returncode == 0


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: `apt-get install chromium` runs this test")
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def maze():
    task = make_task("memory-maze", episode_steps=60, height=16, width=24)
    with Served(Game(task, seed=1, height=60, width=80)) as server:
        yield server


def shown(browser: Browser, element: str) -> str:
    return browser.value(f"document.getElementById('{element}').textContent")


def test_a_person_plays_in_a_browser(browser, maze, tmp_path):
    """Keys move, the clock runs only meanwhile, the end is shown, and another episode begins."""
    browser.size(1280, 900)
    browser.open(maze.address)
    browser.wait("document.title.startsWith('memory-maze') && document.getElementById('picture').naturalWidth === 80")
    assert (shown(browser, "score"), shown(browser, "time"), shown(browser, "seed")) == ("0", "0:04", "1")
    assert "forward" in shown(browser, "keys")
    first = browser.value("document.getElementById('picture').src")
    browser.key("ArrowLeft", down=True)
    browser.wait("now.elapsed >= 8")
    browser.key("ArrowUp", down=True)
    browser.wait("now.elapsed >= 16")
    browser.key("ArrowLeft", down=False)
    browser.key("ArrowUp", down=False)
    assert browser.value("document.getElementById('picture').src") != first
    browser.value("new Promise((done) => setTimeout(done, 150))")
    stood = browser.value("now.elapsed")
    browser.value("new Promise((done) => setTimeout(done, 300))")
    assert browser.value("now.elapsed") == stood, "time stands still while nothing is held"
    assert shown(browser, "time") in ("0:03", "0:02")
    browser.key("KeyW", down=True)
    browser.wait("now.over && !document.getElementById('end').hidden")
    browser.key("KeyW", down=False)
    assert shown(browser, "time") == "0:00"
    assert "episode over: score" in shown(browser, "result")
    (tmp_path / "over.png").write_bytes(browser.picture())
    browser.key("Enter", down=True)
    browser.key("Enter", down=False)
    browser.wait("!now.over && now.episode === 2 && now.seed === 2 && now.elapsed === 0")
    browser.click("#again")
    browser.wait("now.episode === 3 && now.seed === 2")
    browser.click("#new")
    browser.wait("now.episode === 4 && now.seed === 3")
    (tmp_path / "desktop.png").write_bytes(browser.picture())
    assert browser.complaints == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_phone_has_buttons_to_touch_and_nothing_hangs_over_its_edge(browser, maze, tmp_path, dark):
    browser.size(390, 844, phone=True, dark=dark)
    browser.open(maze.address)
    browser.wait("typeof now === 'object' && now !== null && document.getElementById('picture').naturalWidth === 80")
    assert browser.value("document.documentElement.scrollWidth") <= 390
    sizes = browser.value("[...document.querySelectorAll('#pad button')].map((b) => [b.offsetWidth, b.offsetHeight])")
    assert len(sizes) == len(maze.game.controls.buttons)
    assert min(min(size) for size in sizes) >= 40, "a finger needs room"
    before = browser.value("now.elapsed")
    browser.touch("#pad button", down=True)
    browser.wait(f"now.elapsed > {before} + 2")
    browser.touch("#pad button", down=False)
    browser.wait("held.size === 0")
    paper = browser.value("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper))) < 380) == dark
    (tmp_path / "phone.png").write_bytes(browser.picture())
    assert browser.complaints == []


def test_a_server_that_is_gone_is_said(browser):
    browser.size(800, 700)
    with Served(Game(TMaze(corridor=3))) as server:
        browser.open(server.address)
        browser.wait("document.title.startsWith('t-maze') && now !== null")
        assert shown(browser, "time-name") == "steps left"
    browser.key("ArrowRight", down=True)
    browser.wait("!document.getElementById('gone').hidden")
    browser.key("ArrowRight", down=False)
    browser.complaints.clear()  # the browser itself says that nobody answered
