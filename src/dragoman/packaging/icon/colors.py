"""The paints of an SVG drawing: styles become attributes, and one color becomes `currentColor`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from dragoman.packaging.faults import Findings
from dragoman.packaging.icon.geometry import local_name

# Values of fill and stroke that are no color of their own.
NEUTRAL = frozenset({"currentcolor", "none", "inherit"})

_PAINTS = ("fill", "stroke")
_INVISIBLE = frozenset({"transparent", "none"})
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_SELECTOR = re.compile(r"\.?[A-Za-z_][\w-]*")


def inline_styles(root: Element, findings: Findings) -> None:
    """Turn <style> elements and style attributes into attributes, as far as their selectors are names."""
    rules: list[tuple[str, dict[str, str]]] = []
    for parent in list(root.iter()):
        for child in [each for each in parent if local_name(each) == "style"]:
            rules += _read_rules("".join(child.itertext()), findings)
            parent.remove(child)
            findings.fixes.append("icon.style: moved the rules of <style> to attributes")
    for element in root.iter():
        classes = {f".{name}" for name in element.attrib.pop("class", "").split()}
        for selector, values in rules:
            if selector in classes or selector == local_name(element):
                element.attrib.update(values)
        element.attrib.update(_declarations(element.attrib.pop("style", "")))


def use_one_color(root: Element, findings: Findings) -> None:
    """Replace the only color by currentColor; report more than one, and gradients."""
    found = dict.fromkeys(canonical for _, _, canonical in _colors(root))
    if any(color.startswith("url(") for color in found):
        findings.add_fault("icon.color", "the icon uses a gradient or pattern", "draw it in one flat color")
        return
    # What has no fill is black. That is one color more if the others are not black.
    if _has_default_fill(root) and found and "#000000" not in found:
        found["#000000"] = None
    if len(found) > 1:
        findings.add_fault(
            "icon.color",
            f"the icon has {len(found)} colors ({', '.join(found)})",
            "editors show one color: draw it in one, with opacity for shades and gaps instead of white",
        )
        return
    for element, name, _ in list(_colors(root)):
        element.set(name, "currentColor")
    if found:
        findings.fixes.append(f"icon.color: replaced {next(iter(found))} by currentColor")
    if _has_default_fill(root):
        root.set("fill", "currentColor")
        if not found:
            findings.fixes.append("icon.color: made the default black currentColor")


def _colors(root: Element) -> Iterator[tuple[Element, str, str]]:
    """Return each color of the drawing, with its element and attribute."""
    for element in root.iter():
        for name in _PAINTS:
            value = element.get(name, "").strip()
            if not value or value.lower() in NEUTRAL:
                continue
            if value.lower() in _INVISIBLE:
                element.set(name, "none")
                continue
            yield element, name, canonical_color(value)


def _has_default_fill(root: Element) -> bool:
    """Whether a shape is drawn in the fill that nobody set."""

    def search(element: Element, is_set: bool) -> bool:
        is_set = is_set or bool(element.get("fill"))
        drawn = local_name(element) in ("path", "rect", "circle", "ellipse", "polygon", "polyline")
        return (drawn and not is_set) or any(search(child, is_set) for child in element)

    return search(root, False)


def canonical_color(value: str) -> str:
    """Return a color so that equal colors have equal texts, as far as their form shows it."""
    text = value.strip().lower()
    if re.fullmatch(r"#[0-9a-f]{3}", text):
        return "#" + "".join(2 * each for each in text[1:])
    if match := re.fullmatch(r"rgb\(\s*(\d+)[\s,]+(\d+)[\s,]+(\d+)\s*\)", text):
        return "#" + "".join(f"{min(255, int(each)):02x}" for each in match.groups())
    return {"black": "#000000", "white": "#ffffff"}.get(text, text)


def _read_rules(text: str, findings: Findings) -> list[tuple[str, dict[str, str]]]:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    rules = []
    for selectors, body in _RULE.findall(text):
        for selector in (each.strip() for each in selectors.split(",")):
            if _SELECTOR.fullmatch(selector) is None:
                findings.add_fault(
                    "icon.style", f"the style rule {selector!r} cannot be moved", "write its values as attributes"
                )
            else:
                rules.append((selector, _declarations(body)))
    if _RULE.sub("", text).strip():
        findings.add_fault("icon.style", "<style> has more than rules", "write its values as attributes")
    return rules


def _declarations(text: str) -> dict[str, str]:
    pairs = (each.partition(":") for each in text.split(";"))
    values = ((name.strip(), value.replace("!important", "").strip()) for name, _, value in pairs)
    return {name: value for name, value in values if value}
