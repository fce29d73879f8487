"""A headless Chromium, driven through its DevTools protocol: enough to load a page, click, press keys and look."""

import base64
import io
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["Chromium", "find_chromium"]

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--no-first-run",
    "--mute-audio",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--remote-debugging-port=0",
)


def find_chromium() -> str | None:
    """A browser on this machine."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for path in map(shutil.which, names) if path), None)


class Chromium:
    """One browser with one page, and everything that the page complained about."""

    def __init__(self, program: str, size: tuple[int, int] = (1280, 800)) -> None:
        from websockets.sync.client import connect

        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        flags = (*_FLAGS, f"--window-size={size[0]},{size[1]}", f"--user-data-dir={self._folder.name}")
        self._process = subprocess.Popen(
            [program, *flags, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        port, path = self._wait_for_port()
        self._socket = connect(f"ws://127.0.0.1:{port}{path}", max_size=None, compression=None)
        self._session: str | None = None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        width, height = size
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol; events that arrive meanwhile are looked at for complaints."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(timeout=30))
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer.get("result", {})
            self._listen(answer)

    def evaluate(self, script: str) -> Any:
        """The value of a piece of JavaScript."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def open(self, url: str) -> None:
        """Go to a page."""
        self.call("Page.navigate", url=url)

    def wait_for(self, script: str, seconds: float = 20.0) -> Any:
        """Until a piece of JavaScript is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.evaluate(script)
            if value:
                return value
            time.sleep(0.1)
        raise TimeoutError(f"never true: {script}; complaints: {self.complaints}")

    def click(self, text: str) -> None:
        """Click the button that begins with a text."""
        script = (
            "(() => { const b = [...document.querySelectorAll('button')]"
            f".find(b => b.innerText.trim().startsWith({json.dumps(text)})); if (!b) return null;"
            " b.scrollIntoView({block: 'center'});"
            " const r = b.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        x, y = self.wait_for(script)
        self.drag([(x, y)])

    def drag(self, path: list[tuple[float, float]]) -> None:
        """Press the left button at the first point, go along the others, let go at the last."""
        x, y = path[0]
        mouse = "Input.dispatchMouseEvent"
        self.call(mouse, type="mouseMoved", x=x, y=y)
        self.call(mouse, type="mousePressed", x=x, y=y, button="left", clickCount=1)
        for x, y in path[1:]:
            self.call(mouse, type="mouseMoved", x=x, y=y, button="left", buttons=1)
            time.sleep(0.06)
        self.call(mouse, type="mouseReleased", x=x, y=y, button="left", clickCount=1)

    def press(self, key: str, code: str, number: int) -> None:
        """Press and let go a key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code, windowsVirtualKeyCode=number)

    def picture(self) -> NDArray[np.uint8]:
        """What the page looks like.  [height, width, 3]"""
        png = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))

    def close(self) -> None:
        """End the browser."""
        try:
            self._socket.close()
        finally:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._folder.cleanup()

    def __enter__(self) -> "Chromium":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for_port(self, seconds: float = 30.0) -> tuple[int, str]:
        file = Path(self._folder.name) / "DevToolsActivePort"
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            lines = file.read_text().splitlines() if file.exists() else []
            if len(lines) == 2:
                return int(lines[0]), lines[1]
            time.sleep(0.05)
        self._process.kill()
        raise TimeoutError("chromium does not start")

    def _listen(self, event: dict[str, Any]) -> None:
        method, what = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(what["exceptionDetails"].get("exception", what["exceptionDetails"])))
        elif method == "Runtime.consoleAPICalled" and what["type"] == "error":
            self.complaints.append(" ".join(str(part.get("value", part)) for part in what["args"]))
        elif method == "Log.entryAdded" and what["entry"]["level"] == "error":
            self.complaints.append(f"{what['entry']['text']} {what['entry'].get('url', '')}")
