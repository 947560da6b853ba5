"""The Python examples of README and docs run as they stand, each page from top to bottom."""

import re
from pathlib import Path

import pytest

from rince.encoders.convnet import ConvNet
from rince.export import save_encoder

ROOT = Path(__file__).parents[1]
PAGES = [
    p for p in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if "```python\n" in p.read_text("utf-8")
]


@pytest.mark.parametrize("page", [p for p in PAGES if "```python\n" in p.read_text("utf-8")], ids=lambda p: p.name)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page.name == "training.md":  # which has a run behind it
        recipe = {"class_path": "rince.encoders.convnet.ConvNet", "init_args": {}}
        save_encoder("runs/digits-simclr/encoder.safetensors", ConvNet(), recipe, {"normalise": {}})
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        exec(compile(code, str(page), "exec"), names)


def test_links_between_pages_lead_somewhere():
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
