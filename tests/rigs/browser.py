"""A real Chromium without a window, driven over a pipe by the DevTools protocol."""

import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.places import ROOT
from tests.rigs.required import missing
from tests.rigs.waiting import until

LIMIT_S = 180.0


def chromium(profile: Path) -> list[str]:
    """The command of the one that `make parts` fetches, or of one on the PATH; the test skips without."""
    places = f"{ROOT / '.parts/usr/bin'}:{os.environ['PATH']}"
    names = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name, path=places))), None)
    if found is None:
        missing("chromium", "none in .parts or on the PATH; make parts")
    options = "headless=new no-sandbox disable-gpu disable-dev-shm-usage no-first-run enable-logging=stderr v=0"
    return [found, *(f"--{option}" for option in options.split()), f"--user-data-dir={profile}"]


class Tab:
    """One page; what it writes to the console, and what it asks of the network, is kept."""

    def __init__(self, out: int, into: int) -> None:
        self._out, self._into, self._number, self._buffer = out, into, 0, b""
        self.console: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """One call of the protocol and its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self._note(answer.get("method"), answer.get("params"))

    def run(self, script: str) -> Any:
        """The value of an expression in the page, which may be awaited."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, script: str) -> None:
        """Wait until an expression is true."""
        until(
            lambda: self.run(f"!!({script})"), script, seen=lambda: (self.run("document.body.innerText"), self.console)
        )

    def open(self, url: str) -> None:
        """Go to a page that is not the present one, and wait until it is loaded."""
        self.call("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank'")
        self.call("Page.navigate", url=url)
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'")

    def press(self, *keys: str) -> None:
        """Press keys by name, one after another."""
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35}
        for key in keys:
            shift = 8 if key.startswith("Shift+") else 0
            name = key.removeprefix("Shift+")
            given = {"key": name, "code": name, "windowsVirtualKeyCode": codes[name], "modifiers": shift}
            text = {"text": "\r"} if name == "Enter" else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", **given, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **given)

    def type(self, text: str) -> None:
        """Put text where the focus is."""
        self.call("Input.insertText", text=text)

    def _read(self) -> Any:
        end_s = time.monotonic() + LIMIT_S
        while b"\0" not in self._buffer:
            assert select.select([self._into], [], [], max(0.0, end_s - time.monotonic()))[0], "the browser is silent"
            part = os.read(self._into, 1 << 16)
            assert part, "the browser has ended"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def _note(self, method: str | None, params: Any) -> None:
        if method in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.console.append(json.dumps(params))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"])


@contextmanager
def browsing(folder: Path) -> Iterator[Tab]:
    """A browser with one tab until the block ends."""
    words = [*chromium(folder / "profile"), "--remote-debugging-pipe", "about:blank"]
    to_read, out = os.pipe()
    into, to_write = os.pipe()
    with open(folder / "browser.log", "wb") as log:
        actions: list[tuple[int, int, int]] = [
            (os.POSIX_SPAWN_DUP2, to_read, 103),
            (os.POSIX_SPAWN_DUP2, to_write, 104),
            (os.POSIX_SPAWN_DUP2, 103, 3),
            (os.POSIX_SPAWN_DUP2, 104, 4),
            (os.POSIX_SPAWN_DUP2, log.fileno(), 2),
        ]
        process = os.posix_spawn(words[0], words, os.environ, file_actions=actions, setpgroup=0)
    os.close(to_read)
    os.close(to_write)
    try:
        yield Tab(out, into)
    finally:
        os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(out)
        os.close(into)
