"""Makes the pictures of the documentation, `docs/pictures/`, from a cluster with a dead broker: `make pictures`.

The cluster is that of the tour in the README. A picture shows what the program prints at that moment, so that two runs
differ in ids and times.
"""

import base64
import os
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from kafkakit.cli.output import colored_text
from tests.places import ROOT
from tests.rigs.browser import Tab, browsing
from tests.rigs.waiting import until

PICTURES = ROOT / "docs" / "pictures"
THEME = TerminalTheme((255, 255, 255), (27, 31, 36), [(27, 31, 36), (164, 14, 38), (17, 99, 41), (125, 87, 0),
    (5, 80, 174), (130, 80, 223), (27, 124, 131), (87, 96, 106)])  # fmt: skip
DEAD = "1004"


class Desk:
    """The program with a state folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")
        self.env = {
            **os.environ,
            **{name: str(folder / name.lower()) for name in names},
            "HOME": str(folder),
            "COLUMNS": "100",
        }
        self.env.pop("KAFKAKIT_PROFILE", None)

    def words(self, line: str) -> list[str]:
        """The command line of a command of the kit."""
        return [sys.executable, "-m", "kafkakit", *line.split()]

    def run(self, line: str, *codes: int) -> str:
        """What a command prints; it must end with one of the codes, 0 without any."""
        done = subprocess.run(
            self.words(line), env=self.env, cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode in (codes or (0,)), (line, done.returncode, done.stderr)
        return done.stdout


def draw_text(text: str, command: str, path: Path) -> None:
    """A text of a terminal as SVG, with the command above it."""
    lines = text.rstrip("\n").split("\n")
    width = max(80, *(len(Text.from_ansi(line).plain) for line in lines))
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=width, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text(f"$ {command}", style="bold"))
        console.print(Text.from_ansi("\n".join(lines)), no_wrap=True, overflow="ignore", crop=False)
        drawn = console.export_svg(title=command, theme=THEME, unique_id="picture")
    # Nothing is fetched from the network by who looks at it.
    path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL))


def draw_page(tab: Tab, url: str, path: Path, ready: str, *, height: int = 1400) -> None:
    """The top of a page, at most `height` pixels of it, as PNG, as soon as an expression in it is true."""
    size = {"width": 1100, "deviceScaleFactor": 1, "mobile": False}
    tab.call("Emulation.setDeviceMetricsOverride", height=800, **size)
    tab.open(url)
    tab.wait(ready)
    whole = tab.run("document.documentElement.scrollHeight")
    tab.call("Emulation.setDeviceMetricsOverride", height=min(height, whole), **size)
    path.write_bytes(base64.b64decode(tab.call("Page.captureScreenshot", format="png")["data"]))


def made_address(log: Path) -> str:
    """The address that `kafkakit ui` prints when browsers reach it."""
    found: list[str] = []

    def seen() -> bool:
        found[:] = re.findall(r"http://127\.0\.0\.1:\d+", log.read_text())
        return bool(found)

    until(seen, "the page is served", seen=log.read_text)
    return found[0]


def main() -> None:
    """Start the cluster, break it, and draw what the program shows of it."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        desk = Desk(Path(name))
        desk.run("sandbox up --brokers 6 --racks 3 --log-dirs 2")
        stack.callback(desk.run, "sandbox down")
        desk.run("sandbox load --topics 6 --partitions 6 --data 300MB --seed 7")
        desk.run(f"sandbox kill {DEAD}")
        desk.run("sandbox up --brokers 7 --racks 3 --log-dirs 2 --rack-of 1007=a", 0)
        brokers = "1001,1002,1003,1005,1006,1007"
        plan = f"--profile sandbox topicmappr rebuild --topics .* --brokers {brokers} --skip-no-ops --plan p.json"
        desk.run(f"{plan} --html plan.html")
        status = "--profile sandbox status"
        until(lambda: "broker-down" in desk.run(f"{status} -o json", 1), "the broker is missed")
        draw_text(colored_text(desk.run(status, 1)), "kafkakit status", PICTURES / "status.svg")
        log = desk.folder / "ui.log"
        with open(log, "wb") as out:
            words = desk.words("--profile sandbox ui --listen 127.0.0.1:0 --plans .")
            page = subprocess.Popen(words, env=desk.env, cwd=desk.folder, stdout=out, stderr=out)
        stack.callback(page.wait, 30)
        stack.callback(page.terminate)
        shows = "document.body.innerText.includes"
        with browsing(desk.folder) as tab:
            draw_page(tab, made_address(log), PICTURES / "overview.png", f"{shows}('broker-down')")
            draw_page(tab, f"file://{desk.folder}/plan.html", PICTURES / "plan.png", f"{shows}('Proof')", height=900)


if __name__ == "__main__":
    main()
