"""Headless Chromium for tests, driven over WebDriver's HTTP protocol with the standard library alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
]
PATIENCE = 20.0  # seconds


def missing() -> str | None:
    """Why no browser can be started, or None when one can."""
    absent = [name for name, found in (("chromium", _chromium()), ("chromedriver", _driver())) if found is None]
    return f"{' and '.join(absent)} not installed: apt-get install chromium chromium-driver" if absent else None


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _driver() -> str | None:
    return shutil.which("chromedriver")


class Browser:
    """One window."""

    def __init__(self, base: str, session: str) -> None:
        self.base = f"{base}/session/{session}"

    def call(self, path: str, **content: Any) -> Any:
        """A WebDriver command."""
        return _post(f"{self.base}/{path}", content)

    def cdp(self, command: str, **parameters: Any) -> Any:
        """A command of Chromium's own protocol."""
        return self.call("goog/cdp/execute", cmd=command, params=parameters)

    def size(self, width: int, height: int) -> None:
        """Set the size of the page in pixels."""
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme: str) -> None:
        """Say that the user likes "light" or "dark"."""
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, page: Path) -> None:
        """Open a file and wait until its script is ready."""
        self.call("url", url=page.as_uri())
        self.wait("return document.documentElement.dataset.ready === 'yes'")

    def run(self, script: str, *args: Any) -> Any:
        """The value that a script returns."""
        return self.call("execute/sync", script=script, args=list(args))

    def wait(self, script: str, patience: float = PATIENCE) -> None:
        """Wait until a script returns something true."""
        until = time.monotonic() + patience
        while not self.run(script):
            assert time.monotonic() < until, f"never true: {script}; log: {self.log()}"
            time.sleep(0.02)

    def painted(self) -> None:
        """Wait until the page has drawn what was asked for."""
        self.call(
            "execute/async",
            script="const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));",
            args=[],
        )

    def log(self) -> list[dict[str, Any]]:
        """Console messages and failed requests since the last call."""
        return self.call("se/log", type="browser")

    def requests(self) -> list[str]:
        """Addresses that the page asked for, apart from the page itself and what it has within it."""
        found = []
        for entry in self.call("se/log", type="performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return [address for address in found if not address.startswith(("file:", "data:", "blob:"))]

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """A mouse event at a place of the page."""
        self.cdp("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        """Press and release the left button."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def key(self, key: str) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.cdp("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.cdp("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """Save what is seen, or the whole page."""
        options: dict[str, Any] = {"format": "png"}
        if whole:
            options["captureBeyondViewport"] = True
            size = self.cdp("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        path.write_bytes(b64decode(self.cdp("Page.captureScreenshot", **options)["data"]))


def _post(url: str, content: dict[str, Any], method: str = "POST") -> Any:
    # A proxy of the environment is not for a server of this machine.
    opener = build_opener(ProxyHandler({}))
    request = Request(url, json.dumps(content).encode(), {"Content-Type": "application/json"}, method=method)
    try:
        with opener.open(request, timeout=60) as answer:
            return json.load(answer)["value"]
    except HTTPError as error:
        raise AssertionError(json.load(error)["value"]["message"]) from None


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with a fresh profile in `folder`; it ends with the block."""
    chromium, driver = _chromium(), _driver()
    assert chromium is not None and driver is not None
    with (folder / "driver.log").open("w+") as log:
        process = subprocess.Popen([driver, "--port=0"], stdout=log, stderr=subprocess.STDOUT)
        try:
            base = f"http://127.0.0.1:{_port(folder / 'driver.log')}"
            options = {"binary": chromium, "args": [*FLAGS, f"--user-data-dir={folder / 'profile'}"]}
            wanted = {
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }
            made = _post(f"{base}/session", {"capabilities": {"alwaysMatch": wanted}})
            window = Browser(base, made["sessionId"])
            try:
                yield window
            finally:
                # Without this Chromium outlives its driver.
                _post(window.base, {}, "DELETE")
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _port(log: Path) -> int:
    """The port that the driver chose."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for line in log.read_text().splitlines():
            if "successfully on port" in line:
                return int(line.rstrip(".").rsplit(" ", 1)[1])
        time.sleep(0.05)
    raise URLError("chromedriver did not start")
