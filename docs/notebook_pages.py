"""MkDocs hook: turn the notebooks and their committed outputs into pages of the site."""

import base64
import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

FOLDER = Path(__file__).parents[1] / "notebooks"


def on_files(files: Files, config: Any) -> Files:
    for path in sorted(FOLDER.glob("*.ipynb")):
        text, images = page(path)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, content in images.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def page(path: Path) -> tuple[str, dict[str, bytes]]:
    """Markdown of a notebook, and its images by name."""
    parts: list[str] = []
    images: dict[str, bytes] = {}
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}_{len(images)}.png"
                images[name] = base64.b64decode(data["image/png"])
                parts.append(f"![figure {len(images)}]({name})")
            else:
                text = "".join(output.get("text") or data.get("text/plain", ""))
                parts.append(f"```text\n{text.rstrip()}\n```")
    source = f"*This page is the notebook `notebooks/{path.name}`, which the tests run.*"
    return "\n\n".join([*parts, source]) + "\n", images
