"""Charts as SVG, for a light and a dark page. They are drawn into the folder of a part, and stand in the document."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SCHEMES = {"light": ("#1f2328", "#d1d9e0"), "dark": ("#f0f6fc", "#3d444d")}
"""The colour of text and of lines in the background."""
COLOURS = ("#1a7f5a", "#3b82d6", "#d97706", "#b45bcf", "#8b949e")


def draw(
    folder: Path, name: str, says: str, title: str, lines: Mapping[str, Sequence[tuple[float, float]]], **axis: str
) -> str:
    """Draws lines, each with its name at its end, and returns the element that shows them. `says` is for those who
    can't see it. With `columns`, their names stand evenly below them, and the heights are drawn by their powers."""
    import matplotlib as mpl  # here, since only a part that was measured draws
    from matplotlib.figure import Figure

    columns = axis.pop("columns", "").split()
    for scheme, (ink, faint) in SCHEMES.items():
        mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": name, "text.color": ink})
        mpl.rcParams.update({"axes.labelcolor": ink, "axes.edgecolor": faint})
        figure = Figure(figsize=(7.6, 3.8), layout="constrained")
        axes = figure.add_subplot()
        for colour, points in zip(COLOURS, lines.values(), strict=False):
            across, up = zip(*points, strict=True)
            axes.plot(across, up, color=colour, marker="o", markersize=4)
        ticks = sorted({across for points in lines.values() for across, _ in points})
        axes.set_xlim(right=ticks[-1] + 0.45 * (ticks[-1] - ticks[0]))
        axes.set_xticks(ticks, columns or [f"{tick:g}" for tick in ticks])
        axes.set(**axis)
        axes.set_title(title, loc="left", fontweight="bold", color=ink)
        if columns:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        figure.draw_without_rendering()  # it places the axes
        heights = [axes.transData.transform(points[-1])[1] for points in lines.values()]
        for colour, (label, points), moved in zip(COLOURS, lines.items(), _apart(heights), strict=False):
            offset = (8, moved * 72 / figure.dpi)
            axes.annotate(label, points[-1], xytext=offset, textcoords="offset points", va="center", color=colour)
        axes.grid(axis="y", color=faint, linewidth=0.6)
        axes.tick_params(colors=ink, which="both")
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_formatter("{x:g}")
        figure.savefig(folder / f"{name}-{scheme}.svg", transparent=True, metadata={"Date": None})
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="images/{name}-dark.svg">'
        f'<img src="images/{name}-light.svg" alt="{says}"></picture>'
    )


def _apart(heights: Sequence[float], least: float = 16.0) -> list[float]:
    """How far each label has to move, up or down, so that none lies on another."""
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    placed: dict[int, float] = {}
    lowest = -math.inf
    for place in order:
        placed[place] = lowest = max(heights[place], lowest + least)
    return [placed[place] - heights[place] for place in range(len(heights))]


_ROW = re.compile(r"^\| (?:(one)|(\d+)) at (?:a time|once, over \d+ channels) \|(.*)\|$", re.MULTILINE)
_TIME = re.compile(r"([\d.]+) (ms|s)\b")


def clicks(folder: Path, table: str) -> str:
    """How long people wait after a click, from the table of `docs/benchmarks.md`."""
    lines: dict[str, list[tuple[float, float]]] = {
        "finished card, slowest": [],
        "finished card, median": [],
        "tool starts, median": [],
    }
    for row in _ROW.finditer(table):
        cells, count = row[3].split("|"), float(row[2] or 1)
        start, (card, slowest, *_) = _seconds(cells[2])[0], _seconds(cells[3])
        for line, value in zip(lines.values(), (slowest, card, start), strict=True):
            line.append((count, value))
    (_, one), *_, (most, many) = lines["finished card, median"]
    title = f"From the click to the finished card: {one * 1000:.0f} ms, {many:.2f} s with {most:.0f} at once"
    says = f"{title}. Seconds against the requests at once, lower is better."
    return draw(folder, "clicks", says, title, lines, xlabel="requests at once", ylabel="seconds, lower is better")


def _seconds(cell: str) -> list[float]:
    return [float(number) / (1000 if unit == "ms" else 1) for number, unit in _TIME.findall(cell)]


if __name__ == "__main__":
    clicks(IMAGES, (IMAGES.parent / "benchmarks.md").read_text(encoding="utf-8"))
