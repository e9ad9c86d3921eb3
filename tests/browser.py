"""A real browser, driven over the pipe that Chromium itself offers (its DevTools protocol): no driver, no port, no package.

messages are JSON with a zero byte after each; Chromium reads them from file 3 and writes to file 4.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""Where it is; None if there is none."""
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-breakpad",
    "--mute-audio",
    "--remote-debugging-pipe",
)
KEYS = {"ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39, "KeyW": 87, "KeyE": 69, "Enter": 13}


class Browser:
    """One tab. What its pages complain about is kept in `complaints`, the addresses that they ask for in `requests`."""

    def __init__(self, patience: float = 60.0):
        assert CHROMIUM is not None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._patience, self._number, self._rest = patience, 0, b""
        self._home = tempfile.TemporaryDirectory(prefix="chromium", ignore_cleanup_errors=True)
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        # The shell puts the pipes where Chromium looks for them; forking by ourselves is not safe beside JAX's threads.
        line = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", line, "browser", CHROMIUM, *FLAGS, f"--user-data-dir={self._home.name}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session: str | None = None
        targets = self._until(lambda: [t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page"])
        self._session = self.ask("Target.attachToTarget", targetId=targets[0]["targetId"], flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{part}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        try:
            self.ask("Browser.close")
            self._process.wait(10)
        except (OSError, EOFError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._home.cleanup()

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends one message and waits for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self._hear(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._from], [], [], self._patience)[0], "the browser does not answer"
            piece = os.read(self._from, 1 << 20)
            if not piece:
                raise EOFError("the browser ended")
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _hear(self, event: dict[str, Any]) -> None:
        name, said = event.get("method"), event.get("params", {})
        if name == "Runtime.exceptionThrown":
            self.complaints.append(str(said["exceptionDetails"]))
        elif name == "Log.entryAdded" and said["entry"]["level"] in ("warning", "error"):
            self.complaints.append(said["entry"]["text"])
        elif name == "Runtime.consoleAPICalled" and said["type"] in ("warning", "error", "assert"):
            self.complaints.append(str(said["args"]))
        elif name == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])

    def size(self, width: int, height: int, *, phone: bool = False, dark: bool = False) -> None:
        """The window; a phone has fingers instead of a mouse."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.ask("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str) -> None:
        """Goes to a page."""
        assert "errorText" not in self.ask("Page.navigate", url=address)

    def value(self, expression: str) -> Any:
        """What JavaScript says."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Until JavaScript says yes."""
        return self._until(lambda: self.value(expression), expression)

    def _until(self, ask: Any, what: str = "a page") -> Any:
        end = time.monotonic() + self._patience
        while time.monotonic() < end:
            if found := ask():
                return found
            time.sleep(0.02)
        raise AssertionError(f"this did not come true: {what}; the page complained: {self.complaints}")

    def key(self, code: str, *, down: bool) -> None:
        """A key of the keyboard goes down or up."""
        number = KEYS[code]
        kind = "rawKeyDown" if down else "keyUp"
        self.ask("Input.dispatchKeyEvent", type=kind, code=code, windowsVirtualKeyCode=number, key=code.removeprefix("Key"))

    def click(self, element: str) -> None:
        """The mouse, in the middle of an element."""
        x, y = self._middle(element)
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def touch(self, element: str, *, down: bool) -> None:
        """A finger on an element, or off the glass."""
        points = [dict(zip("xy", self._middle(element), strict=True))] if down else []
        self.ask("Input.dispatchTouchEvent", type="touchStart" if down else "touchEnd", touchPoints=points)

    def _middle(self, element: str) -> tuple[float, float]:
        box = f"document.querySelector({json.dumps(element)}).getBoundingClientRect()"
        return self.value(f"(() => {{ const b = {box}; return [b.x + b.width / 2, b.y + b.height / 2]; }})()")

    def picture(self) -> bytes:
        """A PNG of the window."""
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])
