"""Charts as SVG, for a light and a dark page. They are drawn into the folder of a part, and stand in the document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SCHEMES = {"light": ("#1f2328", "#d1d9e0"), "dark": ("#f0f6fc", "#3d444d")}
"""The colour of text and of lines in the background."""
COLOURS = ("#1a7f5a", "#3b82d6", "#d97706", "#b45bcf", "#8b949e")


def draw(
    folder: Path, name: str, says: str, columns: Sequence[str], lines: Mapping[str, Sequence[float]], *, x: str, y: str
) -> str:
    """Draws lines over columns, and returns the element that shows them. `says` is for those who can't see it."""
    import matplotlib as mpl  # here, since only a part that was measured draws
    from matplotlib.figure import Figure

    for scheme, (ink, faint) in SCHEMES.items():
        mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": name, "text.color": ink})
        mpl.rcParams.update({"axes.labelcolor": ink, "axes.edgecolor": faint})
        figure = Figure(figsize=(7.6, 3.8), layout="constrained")
        axes = figure.add_subplot()
        for colour, (label, values) in zip(COLOURS, lines.items(), strict=False):
            axes.plot(columns[: len(values)], values, color=colour, marker="o", markersize=4, label=label)
        axes.set(xlabel=x, ylabel=y, yscale="log")
        axes.grid(axis="y", color=faint, linewidth=0.6)
        axes.tick_params(colors=ink, which="both")
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
        figure.savefig(folder / f"{name}-{scheme}.svg", transparent=True, metadata={"Date": None})
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="images/{name}-dark.svg">'
        f'<img src="images/{name}-light.svg" alt="{says}"></picture>'
    )
