"""Icons are checked and brought into the form that editors show: SVG, 16 by 16, padding, one color, small."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.packaging.icon.geometry import GeometryFault, drawing_box, parse_transform, path_points
from dragoman.packaging.icon.normalize import normalize_icon

XMLNS = 'xmlns="http://www.w3.org/2000/svg"'
GOOD = f'<svg {XMLNS} width="16" height="16" viewBox="0 0 16 16"><path d="M2 2h12v12H2z" fill="currentColor"/></svg>\n'


def svg(body: str, attributes: str = 'viewBox="0 0 16 16"') -> bytes:
    return f"<svg {XMLNS} {attributes}>{body}</svg>".encode()


def rules(data: bytes) -> list[str]:
    return [fault.rule for fault in normalize_icon(data)[1].faults]


def box_of(text: str) -> tuple[float, ...]:
    box = drawing_box(ElementTree.fromstring(text))
    assert box is not None
    return tuple(round(each, 2) for each in box)


@pytest.mark.item("003-23")
@pytest.mark.parametrize(
    ("data", "rule", "fix"),
    [
        (b"\x89PNG\r\n\x1a\n", "icon.svg", "save it as SVG"),
        (b"<html/>", "icon.svg", "save it as SVG"),
        (b'<!DOCTYPE svg [<!ENTITY a "b">]><svg/>', "icon.svg", "remove <!ENTITY"),
        (svg("<path d='M0 0'/>", ""), "icon.size", "export the icon"),
        (svg("<path d='M2 2h9v9z'/>", 'viewBox="0 0 0 16"'), "icon.size", 'give it viewBox="0 0 16 16"'),
        (svg("<path d='M2 2h9v9z' fill='#f00'/><path d='M2 2h3v3z' fill='white'/>"), "icon.color", "draw it in one"),
        (svg("<path d='M2 2h9v9z' fill='red'/><path d='M2 2h3v3z'/>"), "icon.color", "draw it in one"),
        (svg("<path d='M2 2h9v9z' fill='url(#g)'/>"), "icon.color", "one flat color"),
        (svg("<text>A</text>"), "icon.content", "convert the text to paths"),
        (svg("<image href='#a'/>"), "icon.content", "draw it with paths"),
        (svg("<script>alert(1)</script>"), "icon.content", "remove it"),
        (svg("<path onclick='x()' d='M2 2h9v9z'/>"), "icon.content", "remove it"),
        (svg("<use href='https://evil.example/a.svg#b'/>"), "icon.content", "put it into the icon itself"),
        (svg("<path d='M2 2h9v9z' fill='url(http://evil.example/#g)'/>"), "icon.content", "put it into the icon"),
        (svg("<g/>"), "icon.content", "draw something"),
        (
            svg("<style>a > b { fill: red }</style><path d='M2 2h9v9z'/>"),
            "icon.style",
            "write its values as attributes",
        ),
        (b"<svg>" + b" " * 300_000 + b"</svg>", "icon.size", "plain SVG"),
    ],
    ids=lambda value: value if isinstance(value, str) else "icon",
)
def test_an_icon_that_only_its_author_can_repair_is_refused_with_the_fix(data: bytes, rule: str, fix: str) -> None:
    text, findings = normalize_icon(data)
    assert text == ""
    assert [fix in fault.fix for fault in findings.faults if fault.rule == rule][:1] == [True], findings.faults


@pytest.mark.item("003-23")
def test_a_good_icon_stays_as_it_is() -> None:
    text, findings = normalize_icon(GOOD.encode())
    assert text == GOOD
    assert (findings.faults, findings.fixes) == ([], [])


@pytest.mark.item("003-23")
def test_an_icon_as_drawing_programs_write_it_is_brought_into_form() -> None:
    text, findings = normalize_icon(
        (
            '<?xml version="1.0"?><!-- hello --><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "x.dtd">'
            f'<svg {XMLNS} xmlns:ink="http://www.inkscape.org/x" ink:version="1" width="24px" height="24px" id="a">'
            "<title>Banjo</title><metadata/><ink:namedview/><style>.a{fill:#123456;stroke:none}</style>"
            '<g style="opacity:.5"><path id="b" class="a" data-name="x" d="M0,0 h24.123456 v24 h-24 z"/></g></svg>'
        ).encode()
    )
    assert findings.faults == []
    assert {fix.partition(":")[0] for fix in findings.fixes} == {
        "icon.svg", "icon.comment", "icon.style", "icon.color", "icon.optimized", "icon.size", "icon.padding",
    }  # fmt: skip
    assert text.startswith(f'<svg {XMLNS} width="16" height="16" viewBox="0 0 16 16">')
    assert re.search("ink|style|id=|class|title|<!--|#123456|data-|24.123456", text) is None
    assert 'fill="currentColor"' in text
    assert 'opacity=".5"' in text
    left, top, right, bottom = box_of(text)
    assert min(left, top, 16 - right, 16 - bottom) >= 0.95
    assert normalize_icon(text.encode())[0] == text


def test_padding_that_is_there_is_kept() -> None:
    text, findings = normalize_icon(svg('<circle cx="12" cy="12" r="9"/>', 'viewBox="0 0 24 24"'))
    assert box_of(text) == (2.0, 2.0, 14.0, 14.0)
    assert not any("padding" in fix for fix in findings.fixes)


def test_a_stroke_counts_as_part_of_the_drawing() -> None:
    drawn = '<path d="M1 8H15" stroke="#000" stroke-width="2" fill="none"/>'
    text, findings = normalize_icon(svg(drawn))
    assert any("icon.padding" in fix for fix in findings.fixes)
    left, _, right, _ = box_of(text)
    assert (left, right) == (1.0, 15.0)


def test_a_reference_inside_the_icon_is_kept() -> None:
    body = '<defs><clipPath id="c"><path d="M0 0h9v9z"/></clipPath></defs><path clip-path="url(#c)" d="M2 2h9v9z"/>'
    text, findings = normalize_icon(svg(body))
    assert findings.faults == []
    assert 'id="c"' in text
    assert "url(#c)" in text


@pytest.mark.parametrize(
    ("path", "box"),
    [
        ("M1 1H5V6", (1, 1, 5, 6)),
        ("m1 1 2 0 0 2z m1 1h5", (1, 1, 7, 3)),
        ("M0 0C0 8 8 8 8 0", (0, 0, 8, 6)),
        ("M0 0Q4 8 8 0T16 0", (0, -4, 16, 4)),
        ("M0 0c0 4 4 4 4 0s4-4 4 0", (0, -3, 8, 3)),
        ("M0 4a4 4 0 1 1 8 0a4 4 0 1 1-8 0", (0, 0, 8, 8)),
        ("M0 4a4 4 0 018 0", (0, 0, 8, 4)),
        ("M1-1.5.5-2", (0.5, -2, 1, -1.5)),
    ],
)
def test_the_box_of_a_path(path: str, box: tuple[float, ...]) -> None:
    points = list(path_points(path))
    xs, ys = [x for x, _ in points], [y for _, y in points]
    assert (min(xs), min(ys), max(xs), max(ys)) == pytest.approx(box, abs=0.02)


def test_transforms_are_applied_from_the_inside() -> None:
    assert parse_transform("translate(1 2) scale(3)") == pytest.approx((3, 0, 0, 3, 1, 2))
    assert parse_transform("rotate(90)") == pytest.approx((0, 1, -1, 0, 0, 0))
    assert parse_transform("rotate(180, 1, 1)") == pytest.approx((-1, 0, 0, -1, 2, 2))
    assert parse_transform("skewX(45)")[2] == pytest.approx(math.tan(math.radians(45)))
    with pytest.raises(GeometryFault):
        parse_transform("fly(1)")


@given(st.text(alphabet="MmLlHhVvCcSsQqTtAaZz0123456789.-+e, ", max_size=40))
def test_any_path_is_measured_or_refused(path: str) -> None:
    try:
        points = list(path_points(path))
    except GeometryFault:
        return
    assert all(len(point) == 2 for point in points)


@given(st.binary(max_size=200) | st.text(alphabet='<>/svgpath d="M0 z"=&;', max_size=80).map(str.encode))
def test_any_file_is_an_icon_or_refused(data: bytes) -> None:
    text, findings = normalize_icon(data)
    assert bool(text) != bool(findings.faults)


@given(
    size=st.floats(1, 2000),
    shape=st.tuples(*[st.floats(0, 1)] * 4),
    color=st.sampled_from(["", 'fill="#abc"', 'fill="red"', 'fill="none" stroke="black"']),
)
def test_every_drawing_in_one_color_fits_afterwards(size: float, shape: tuple[float, ...], color: str) -> None:
    x, y, width, height = (round(each * size, 3) for each in shape)
    body = f'<rect x="{x}" y="{y}" width="{width + size / 10}" height="{height + size / 10}" {color}/>'
    text, findings = normalize_icon(svg(body, f'viewBox="0 0 {size:.3f} {size:.3f}"'))
    assert findings.faults == []
    left, top, right, bottom = box_of(text)
    assert min(left, top) >= 0.9
    assert max(right, bottom) <= 15.1
    assert set(re.findall(r'(?:fill|stroke)="([^"]+)"', text)) <= {"currentColor", "none"}
    assert "currentColor" in text
