"""From matplotlib's figure to a picture that belongs to the page.

Text that comes from outside never reaches matplotlib, which would read `$` as mathematics and
warn of characters that its font lacks: it draws placeholders, which are replaced here, where the
XML library escapes. Colours are replaced as well, by the page's own, so that a plot follows it into
the dark.
"""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure

WIDTH = 400
"""Units of every plot; text of 12 units is legible on a telephone, and not coarse on a desk."""

INK, MUTED, GRID = "#000001", "#000002", "#000003"
"""Stand-ins for colours of the page."""
SERIES = tuple(f"#0001{number:02}" for number in range(7))
_PAGE = {INK: "currentColor", MUTED: "var(--muted)", GRID: "var(--grid)"} | {
    color: f"var(--s{number})" for number, color in enumerate(SERIES)
}
_COLOR = re.compile("|".join(_PAGE))
_FONT = re.compile(r"font-family: [^;]*;? ?")
_REFERENCE = re.compile(r"#(m|p)[0-9a-f]+")


def _set_style() -> None:
    """Flat, with a grid instead of ticks."""
    matplotlib.rcdefaults()
    matplotlib.rc("svg", fonttype="none", hashsalt="arena")
    matplotlib.rc("text", parse_math=False, color=INK)
    matplotlib.rc("font", size=12)
    matplotlib.rc("axes", edgecolor=GRID, labelcolor=MUTED, labelsize=12, grid=True, axisbelow=True)
    matplotlib.rc("axes.spines", top=False, right=False)
    matplotlib.rc("grid", color=GRID, linewidth=0.8)
    matplotlib.rc("xtick", color=GRID, labelcolor=MUTED)
    matplotlib.rc("ytick", color=GRID, labelcolor=MUTED)
    matplotlib.rc("xtick.major", size=0)
    matplotlib.rc("ytick.major", size=0)


class Canvas:
    """A figure under way. Used as a context, so that no setting of the user's matters."""

    def __init__(self, height: int) -> None:
        self._settings = matplotlib.rc_context()
        self._texts: dict[str, str] = {}
        self._height = height

    def __enter__(self) -> Canvas:
        self._settings.__enter__()
        _set_style()
        self.figure = Figure(figsize=(WIDTH / 72, self._height / 72))
        return self

    def __exit__(self, *failure: object) -> None:
        self._settings.__exit__(None, None, None)

    def text(self, words: str) -> str:
        """What to let matplotlib write for these words."""
        placeholder = f"words {len(self._texts)}"
        self._texts[placeholder] = words
        return placeholder

    def svg(self, name: str, described: str) -> Markup:
        """The picture; `name` is its own on the page, `described` is for who cannot see it."""
        drawn = io.BytesIO()
        nobody = {"Date": None, "Creator": None, "Format": None, "Type": None}
        self.figure.savefig(drawn, format="svg", transparent=True, metadata=nobody)
        root = ElementTree.fromstring(drawn.getvalue())
        for element in root.iter():
            self._adopt(element, name)
        for defs in root.findall("defs"):
            for rule in defs.findall("style"):  # It would hold for the whole page.
                defs.remove(rule)
        view = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": described}
        root.attrib.clear()
        root.attrib.update(view)
        return Markup(ElementTree.tostring(root, encoding="unicode"))

    def _adopt(self, element: ElementTree.Element, name: str) -> None:
        """Give one element the page's words, fonts and colours, and no namespace: HTML has one."""
        element.tag = element.tag.rpartition("}")[2]
        attributes = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
        element.attrib.clear()
        for key, value in attributes.items():
            if key == "id" and not _REFERENCE.fullmatch(f"#{value}"):
                continue
            mended = f"{name}-{value}" if key == "id" else _COLOR.sub(_page_color, value)
            mended = _REFERENCE.sub(lambda found: f"#{name}-{found[0][1:]}", mended)
            element.set(key, _FONT.sub("", mended))
        if element.text is not None:
            element.text = self._texts.get(element.text, element.text)
        # Line breaks between elements are a fifth of the picture.
        element.tail = None


def _page_color(found: re.Match[str]) -> str:
    return _PAGE[found[0]]
