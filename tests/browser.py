"""A real browser for tests of pages: Debian's Chromium, driven over its DevTools pipe.

No driver and no package from PyPI: Chromium reads commands from file descriptor 3 and answers on 4, JSON
messages that end in a zero byte, the way Puppeteer and Playwright talk to it. Names are never resolved, so
a page that asks any host for anything fails, and every request is recorded besides.

    with Browser() as browser:
        page = browser.open(path)
        page.run("document.title")
        assert page.complaints == [] and page.requests == []
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio", "--remote-debugging-pipe"),
    "--enable-unsafe-swiftshader",  # WebGL without a graphics card
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
OWN = ("file:", "data:", "blob:", "about:")  # addresses that ask no host
SECONDS = 60.0
LARGEST_PAGE = 1_500_000  # bytes

needs_chromium = pytest.mark.skipif(
    PROGRAM is None, reason="needs a browser: apt-get install --no-install-recommends chromium"
)


class Page:
    """An open page: run scripts in it, look at it, and read what it complained about."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.complaints: list[str] = []  # console errors, uncaught exceptions, failed loads
        self.requests: list[str] = []  # addresses of other hosts that the page asked for

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """A DevTools command to this page."""
        return self._browser.send(method, params, self._session)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(_told(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until a JavaScript expression is true."""
        end = time.monotonic() + SECONDS
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise AssertionError(f"not true within {SECONDS:.0f} s: {condition}")
            time.sleep(0.05)

    def resize(self, width: int, height: int) -> None:
        """Make the window as large as a desktop's or a phone's."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    def screenshot(self, path: Path | None = None, *, whole: bool = False) -> bytes:
        """What the page looks like, as PNG; ``whole`` also below the window's edge."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        content = base64.b64decode(shot["data"])
        if path is not None:
            path.write_bytes(content)
        return content

    def heard(self, event: str, params: dict[str, Any]) -> None:
        """Keep what tells of an error or of another host."""
        if event == "Runtime.exceptionThrown":
            self.complaints.append(_told(params["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and params["type"] == "error":
            said = (str(each.get("value", each.get("description"))) for each in params["args"])
            self.complaints.append(f"{params['type']}: {' '.join(said)}")
        elif event == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(params["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            address = params["request"]["url"]
            if not address.startswith(OWN):
                self.requests.append(address)
        elif event == "Network.webSocketCreated":
            self.requests.append(params["url"])


class Browser:
    """Chromium with an empty profile, ended with everything it started on leaving the block."""

    def __enter__(self) -> Browser:
        assert PROGRAM is not None, "mark the test with needs_chromium"
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        (read, self._out), (self._in, write) = os.pipe(), os.pipe()
        # The shell puts the pipes where Chromium looks for them; above 9 they are not in its way.
        theirs = [fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (read, write)]
        command = f'exec "$@" 3<&{theirs[0]} 4>&{theirs[1]}'
        self._process = subprocess.Popen(
            [
                "bash",
                "-c",
                command,
                "bash",
                PROGRAM,
                *FLAGS,
                f"--user-data-dir={self._profile.name}",
            ],
            pass_fds=theirs,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for each in (read, write, *theirs):
            os.close(each)
        self._buffer, self._count, self._pages = b"", 0, {}
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._out)  # Chromium ends when its pipe does
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._in)
        self._profile.cleanup()

    def open(self, path: Path, fragment: str = "", *, width: int = 1280, height: int = 900) -> Page:
        """Load a file, which must not be too large to send, and wait until it is there."""
        assert path.stat().st_size <= LARGEST_PAGE, f"{path.name} is larger than {LARGEST_PAGE:,}"
        target = self.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        opened = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})
        page = self._pages[opened["sessionId"]] = Page(self, opened["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        page.resize(width, height)
        page.send("Page.navigate", url=path.resolve().as_uri() + fragment)
        page.wait("document.readyState == 'complete' && location.protocol == 'file:'")
        return page

    def send(
        self, method: str, params: dict[str, Any], session: str | None = None
    ) -> dict[str, Any]:
        """A command and its answer; what happens meanwhile goes to the page it happened in."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + SECONDS
        while True:
            answer = self._read(end)
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer and answer.get("sessionId") in self._pages:
                self._pages[answer["sessionId"]].heard(answer["method"], answer["params"])

    def _read(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AssertionError(f"Chromium did not answer within {SECONDS:.0f} s")
            received = os.read(self._in, 1 << 20)
            if not received:
                raise AssertionError("Chromium ended")
            self._buffer += received
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


def _told(details: dict[str, Any]) -> str:
    return details.get("exception", {}).get("description") or details["text"]
