"""A run to fine-tune, and the command that does it."""

import pytest

from rince import cli
from support.crashes import CRASHES, Crash
from support.finetuned_digits import PRETRAIN, SHORT


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    assert cli.main(["train", *PRETRAIN, "--out", str(out), "--name", "run"]) == 0
    return out / "run"


@pytest.fixture
def finetune(pretrained, tmp_path, monkeypatch):
    def call(name, *options, crash_at=-1, run=pretrained):
        monkeypatch.setattr(Crash, "at", crash_at)
        try:
            return cli.main(["finetune", str(run), *SHORT, CRASHES, "--out", str(tmp_path), "--name", name, *options])
        except RuntimeError as error:
            assert str(error) == "crash"
            return None

    return call
