"""The documented examples with weights run against the libraries themselves."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs" / "integrations"
EXAMPLES = {  # page: the libraries that it needs
    "open_clip": (),
    "lightly": (),
    "pytorch_metric_learning": ("pytorch_metric_learning",),
    "transformers": ("transformers", "accelerate"),
}


@pytest.mark.parametrize("page", EXAMPLES)
def test_example_with_weights_runs(page, tmp_path, monkeypatch):
    for name in EXAMPLES[page]:
        pytest.importorskip(name, reason=f"{name} is not installed: make test-peers")
    monkeypatch.chdir(tmp_path)
    section = re.search(r"## A weight per .*?\n(.*?)(\n## |\Z)", (DOCS / f"{page}.md").read_text("utf-8"), re.DOTALL)
    assert section is not None
    codes = re.findall(r"```py(?:thon)?\n(.*?)```", section[1], re.DOTALL)
    names: dict = {}
    for code in codes:
        exec(compile(code, page, "exec"), names)
    assert codes
