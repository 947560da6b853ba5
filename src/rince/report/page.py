"""One HTML file with everything in it: style, script and data. Nothing it shows can act as markup or code."""

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any


def page(title: str, body: str, data: dict[str, Any]) -> str:
    """A whole page; ``body`` is trusted markup from this project, ``data`` is what users brought and is only ever text.

    The policy in the head forbids every request and every script but the one whose hash it names.
    """
    style, script = asset("page.css"), _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    )
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}\n"
        f'<script type="application/json" id="data">{as_json(data)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def as_json(data: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in, whatever texts it holds."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


SCRIPT = ("base", "histogram", "overview", "groups", "marks", "filter", "pairs", "demo", "main")


def _script() -> str:
    """The parts of the script, one after the other, in a scope of their own."""
    return '"use strict";\n(() => {\n' + "".join(asset(f"script/{part}.js") for part in SCRIPT) + "})();\n"


def asset(name: str) -> str:
    """The text of a file of this room."""
    return files("rince.report").joinpath(name).read_text(encoding="utf-8")
