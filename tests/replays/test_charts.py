"""Charts: ticks for any range, safe text, and the same coordinates that the data have."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from arena.evaluation.document import ChartAxis, ChartPoint, LineChart, Series
from replays.html_report.page import WIDTH, Scale, draw

FINITE = st.floats(-1e15, 1e15, allow_nan=False)
X, Y = ChartAxis("step"), ChartAxis("value")
NUMBER = r"-?\d+(?:\.\d+)?"


def test_an_axis_ends_where_values_are_impossible() -> None:
    axis = ChartAxis("share", format=lambda value: f"{value:.2f}", ticks=12, bounds=(0, 1))
    line = Series([ChartPoint(1, 0.0), ChartPoint(2, 1.0)])
    labels = [
        float(each)
        for each in re.findall(r">(-?\d\.\d\d)<", draw(LineChart("", "", [line], X, axis)))
    ]
    assert min(labels) == 0 and max(labels) == 1
    assert Scale.of(axis, [0.0, 1.0], 0, 1) == Scale(0.0, 1.0, 0, 1)
    # An impossible value of an old report stays in the picture.
    assert Scale.of(axis, [-0.2, 0.5], 0, 1).low == -0.2
    free = Scale.of(ChartAxis(), [0.0, 1.0], 0, 1)
    assert free.low < 0 and free.high > 1


def numbers(svg: str) -> list[float]:
    """All coordinates of a chart's paths and texts."""
    places = re.findall(r' (?:d|x|y)="([^"]*)"', svg)
    return [float(number) for place in places for number in re.findall(NUMBER, place)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(FINITE, FINITE), max_size=6), st.booleans())
def test_any_finite_data_give_a_picture_within_its_frame(
    data: list[tuple[float, float]], whole: bool
) -> None:
    points = [ChartPoint(x, y) for x, y in sorted(data)]
    svg = draw(
        LineChart("any", "", [Series(points)], ChartAxis("x", whole=whole), Y, reference=0.0)
    )
    ElementTree.fromstring(svg)
    assert all(-WIDTH <= number <= 2 * WIDTH for number in numbers(svg))
    assert svg.count("<text") < 60, "few labels, whatever the range"
    assert not re.search(r"nan|inf", svg)


def test_text_of_a_chart_is_escaped() -> None:
    hostile = '</svg><script>alert(1)</script>" onload="x\u202e'
    svg = draw(LineChart(hostile, "", [], ChartAxis(hostile), ChartAxis(hostile)))
    root = ElementTree.fromstring(svg)
    assert {element.tag for element in root.iter()} <= {"svg", "path", "text"}
    assert "\u202e" not in svg and not any(key.startswith("on") for key in root.attrib)


def test_values_are_drawn_at_their_place() -> None:
    axis = ChartAxis(low=0, high=10, ticks=5)
    svg = draw(LineChart("", "", [Series([ChartPoint(0, 0), ChartPoint(10, 10)])], axis, axis))
    (line,) = re.findall(r'class="c0 line" d="M([^"]*)"', svg)
    left, right = (tuple(map(float, pair.split())) for pair in line.split("L"))
    # The origin is at the lower left: y grows downwards in SVG.
    assert left[0] < right[0] and left[1] > right[1]
    labels = [element.text for element in ElementTree.fromstring(svg).iter("text")]
    assert labels.count("0") == labels.count("10") == 2
