"""Makes the pictures of the documentation, `docs/pictures/`, from real clusters: `make pictures`.

`tour` is the cluster of the README with a dead broker, and what the program shows of it at that moment; the others are
plots of real runs (`plotted_runs.py`). Two runs differ in ids, times and measured figures. Arguments choose some:
`python -m tests.rigs.pictures lag failover`.
"""

import base64
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from kafkakit.cli.output import colored_text
from kafkakit.report.pages import Chart
from tests.places import ROOT
from tests.rigs.browser import Tab, browsing
from tests.rigs.desk import Desk
from tests.rigs.plots import draw_plot
from tests.rigs.plotted_runs import plot_autothrottle, plot_failover, plot_lag
from tests.rigs.waiting import until

PICTURES = ROOT / "docs" / "pictures"
THEME = TerminalTheme((255, 255, 255), (27, 31, 36), [(27, 31, 36), (164, 14, 38), (17, 99, 41), (125, 87, 0),
    (5, 80, 174), (130, 80, 223), (27, 124, 131), (87, 96, 106)])  # fmt: skip
DEAD = "1004"


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


def draw_tour(folder: Path) -> None:
    """Start the cluster of the tour, break it, and draw what the program shows of it."""
    desk = Desk(folder)
    with ExitStack() as stack:
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
        log = folder / "ui.log"
        stack.enter_context(desk.serving("--profile sandbox ui --listen 127.0.0.1:0 --plans .", log))
        shows = "document.body.innerText.includes"
        with browsing(folder) as tab:
            draw_page(tab, made_address(log), PICTURES / "overview.png", f"{shows}('broker-down')")
            draw_page(tab, f"file://{folder}/plan.html", PICTURES / "plan.png", f"{shows}('Proof')", height=900)


def draw_run(name: str, run: Callable[[Desk], Chart], folder: Path) -> None:
    """Carry a run out, and draw its plot."""
    draw_plot(run(Desk(folder)), PICTURES / f"{name}.svg")


MADE: Mapping[str, Callable[[Path], None]] = {
    "tour": draw_tour,
    "autothrottle": partial(draw_run, "autothrottle", plot_autothrottle),
    "lag": partial(draw_run, "lag", plot_lag),
    "failover": partial(draw_run, "failover", plot_failover),
}


def main() -> None:
    """Make what the arguments name, or everything."""
    PICTURES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or MADE:
        with tempfile.TemporaryDirectory() as folder:
            MADE[name](Path(folder))


if __name__ == "__main__":
    main()
