"""A headless Chromium, driven over a pipe with the DevTools protocol: messages of JSON, each ended by a zero byte."""
import base64
import fcntl
import json
import os
import shutil
import subprocess


def find():
    """The path of a Chromium, or None. Ubuntu's package is a script that asks for a snap where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        program = shutil.which(name)
        if program and subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0:
            return program
    return None


def moved(descriptor):
    """The same pipe under a number that is not 3 or 4."""
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10)
    os.close(descriptor)
    return copy


class Page:
    """One page of a browser of its own. `errors` collects what its console reports as errors, and exceptions that nobody caught."""

    def __init__(self, program, folder):
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()

        def pipes():
            os.dup2(read_there, 3)
            os.dup2(write_there, 4)

        # The descriptors may be 3 and 4 themselves. No copy may stay open here, or the end of the browser would not be seen.
        read_there, write_there = moved(read_there), moved(write_there)
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--no-first-run", "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={folder}"],
            preexec_fn=pipes, close_fds=True, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_there)
        os.close(write_there)
        self.read, self.write = os.fdopen(read_here, "rb", buffering=0), os.fdopen(write_here, "wb", buffering=0)
        self.buffer, self.count, self.session = b"", 0, None
        self.errors, self.loaded = [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    def receive(self):
        """The next message; events are noted."""
        while b"\0" not in self.buffer:
            more = self.read.read(1 << 16)
            if not more:
                raise RuntimeError("Chromium has ended")
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(str(params["args"]))
        elif method == "Page.loadEventFired":
            self.loaded = True
        return message

    def call(self, method, **params):
        """Call a method and wait for its result."""
        self.count += 1
        number = self.count
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.write.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path, width, height, dark=False):
        """Open a file in a window of that size, in the light or the dark color scheme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Network.enable")
        self.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        self.go(f"file://{path}")

    def go(self, url):
        """Load a page."""
        self.loaded = False
        self.call("Page.navigate", url=url)
        while not self.loaded:
            self.receive()

    def evaluate(self, expression):
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def mouse(self, kind, x, y, **more):
        """A movement or a press of the mouse."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, x0, x1, y):
        """Press at (x0, y), move to (x1, y), release."""
        self.mouse("mouseMoved", x0, y)
        self.mouse("mousePressed", x0, y, button="left", buttons=1, clickCount=1)
        self.mouse("mouseMoved", (x0 + x1) / 2, y, button="left", buttons=1)
        self.mouse("mouseMoved", x1, y, button="left", buttons=1)
        self.mouse("mouseReleased", x1, y, button="left", clickCount=1)

    def key(self, key):
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path):
        """The whole page as a PNG file."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1})
        with open(path, "wb") as f:
            f.write(base64.b64decode(shot["data"]))

    def close(self):
        """End the browser."""
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, OSError):
            pass
        self.process.wait(30)
