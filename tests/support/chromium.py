"""A real browser for tests: headless Chromium, driven over the DevTools protocol."""

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

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
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
    "--hide-scrollbars",
    "about:blank",
]


class Browser:
    """One tab. ``events`` collects what the browser reports: console output, exceptions, requests."""

    def __init__(self, profile: Path):
        self.program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if self.program is None:
            pytest.skip("needs chromium on the PATH")
        websocket = pytest.importorskip("websocket", reason="needs websocket-client")
        self.process = subprocess.Popen(
            [self.program, f"--user-data-dir={profile}", *FLAGS], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        port = self._port(profile / "DevToolsActivePort")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            tab = next(one for one in json.load(answer) if one["type"] == "page")
        self.socket = websocket.create_connection(tab["webSocketDebuggerUrl"], timeout=30)
        self.number = 0
        self.events: list[dict] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def _port(self, file: Path) -> int:
        for _ in range(600):
            if file.exists() and file.read_text().strip():
                return int(file.read_text().split()[0])
            if self.process.poll() is not None:
                pytest.skip(f"chromium does not start here (exit code {self.process.returncode})")
            time.sleep(0.1)
        self.process.kill()
        pytest.skip("chromium did not start within a minute")

    def send(self, method: str, **parameters):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def evaluate(self, expression: str):
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def open(self, page: Path, width: int = 1280, height: int = 900, dark: bool = False, ready: str = "true") -> None:
        self.events.clear()
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=scheme)
        self.evaluate("window.left = true")
        self.send("Page.navigate", url=page.resolve().as_uri())
        self.wait(f"!window.left && document.readyState === 'complete' && ({ready})")
        # Before the first frame is drawn, Chromium drops keys.
        self.evaluate("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")

    def wait(self, condition: str, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not self.evaluate(condition):
            assert time.monotonic() < end, f"never became true: {condition}; {self.complaints()}"
            time.sleep(0.05)

    def complaints(self) -> list[str]:
        """Errors and warnings on the console, and exceptions."""
        found = []
        for event in self.events:
            method, parameters = event["method"], event["params"]
            if (
                method == "Runtime.exceptionThrown"
                or method == "Log.entryAdded"
                or (method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"))
            ):
                found.append(json.dumps(parameters))
        return found

    def requests(self) -> list[str]:
        """Addresses asked for, besides what lies in the page itself."""
        asked = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("data:", "blob:"))]

    def screenshot(self, path: Path) -> None:
        image = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(image["data"]))

    def close(self) -> None:
        self.socket.close()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
