"""One HTML file out of gathered sections: styles, scripts and data inside, nothing from outside.

Owns the escaping. Names and labels are data in a block of JSON that no browser runs, and scripts
only ever write them as text. The policy in the page's head lets nothing run but our own script,
known by its hash, and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

# In the order in which they use each other.
_SCRIPTS = ("elements", "plots", "charts", "contributions", "judgements", "tree", "report")


def html_page(content: Mapping[str, Any]) -> bytes:
    """The whole file; the same bytes for the same content."""
    style = _part("report.css")
    code = "\n".join(_part(f"{name}.js") for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{code}}})();\n'
    parts = {
        "policy": (
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
            "img-src data:; base-uri 'none'; form-action 'none'"
        ),
        "style": style,
        "data": _as_data(content),
        "script": script,
    }
    page = _part("report.html")
    before, *others = page.split("{{")
    pieces = [before]
    for other in others:
        name, _, after = other.partition("}}")
        pieces += [parts[name], after]
    return "".join(pieces).encode("utf-8")


def _as_data(content: Mapping[str, Any]) -> str:
    """JSON in which nothing can end the element it stands in."""
    plain = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        plain = plain.replace(sign, f"\\u{ord(sign):04x}")
    return plain


def _part(name: str) -> str:
    return files("bitgrove.report").joinpath("page").joinpath(name).read_text(encoding="utf-8")


def _hash(inside: str) -> str:
    digest = hashlib.sha256(inside.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
