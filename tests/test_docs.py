"""The Python examples of README and docs run as they stand, each page from top to bottom, and the commands exist."""

import argparse
import contextlib
import re
import shlex
from pathlib import Path

import pytest

from rince import cli
from rince.train.short_names import builtin_configs

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "experiments" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", [p for p in PAGES if "```python\n" in p.read_text("utf-8")], ids=lambda p: p.name)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        exec(compile(code, str(page), "exec"), names)


def test_links_between_pages_lead_somewhere():
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        prose = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/reliability.md"])
def test_tests_that_a_table_names_exist(page):
    path = ""
    for found in re.findall(r"`(tests/[\w/.]+)?(?:::(\w+))?`", (ROOT / page).read_text("utf-8")):
        path, name = found[0] or path, found[1]
        assert not path or (ROOT / path).exists(), f"{page} names {path}"
        assert not name or f"def {name}(" in (ROOT / path).read_text("utf-8"), f"{page} names {path}::{name}"


class Parsed(BaseException):
    """The options of a command were understood."""


def commands_of(page):
    """The lines of indented and fenced blocks that call rince, and inline code that is a whole command."""
    text = page.read_text("utf-8")
    lines = re.findall(rf"^ *(?:\$ )?rince ((?:{'|'.join(cli.COMMANDS)})\b[^>\n]*)", text, re.MULTILINE)
    inline = re.findall(r"`rince (\w+\s+[^-`][^`]*)`", text)
    words = [shlex.split(" ".join(line.split()), comments=True) for line in [*lines, *inline]]
    return [each for each in words if each[0] in cli.COMMANDS and not any(w.isupper() or "[" in w for w in each[:2])]


CALLS = sorted({tuple(call) for page in (*PAGES, ROOT / "CONTRIBUTING.md") for call in commands_of(page)})
CALLS += sorted(
    {
        tuple(line.split())
        for path in builtin_configs().values()
        for line in re.findall(r"^#   rince (.+)$", path.read_text("utf-8"), re.MULTILINE)
    }
    - set(CALLS)
)


@pytest.fixture(scope="module")
def trainer_parsers():
    from rince.train.config import finetune_parser, parse_settings, train_parser

    finetune = finetune_parser()
    digits = parse_settings(train_parser(), {"data": {"class_path": "rince.data.images.DigitImages"}})
    finetune.set_defaults({"data": digits.data.as_dict()})
    return {"train": train_parser(), "finetune": finetune}


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_every_command_that_is_shown_has_these_options(call, trainer_parsers, monkeypatch, tmp_path):
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")  # configurations of a clone
    monkeypatch.chdir(tmp_path)
    command, *arguments = call
    wrong = ("--loss.qq", "pairs.yaml")  # shown for what they are answered with, or written by the reader
    if command in trainer_parsers and not set(wrong) & set(arguments):
        from rince.train.config import parse

        try:
            parse(trainer_parsers[command], arguments[command == "finetune" :])
        except SystemExit as end:  # --print_config and --loss.help
            assert end.code == 0
        return
    plain = argparse.ArgumentParser.parse_known_args

    def parse_only(self, *given, **named):
        _, unknown = plain(self, *given, **named)
        assert not unknown, unknown
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", parse_only)
    with contextlib.suppress(Parsed):
        assert command in trainer_parsers or cli.main(list(call)) == 0


def experiments_of(page):
    lines = re.findall(
        r"(?:^|`) *(?:\$ )?python -m experiments ([a-z0-9][^`>\n]*)", page.read_text("utf-8"), re.MULTILINE
    )
    words = [shlex.split(line, comments=True) for line in lines]
    return [tuple(each) for each in words if not any("[" in word or word == "..." for word in each)]


@pytest.mark.parametrize("call", sorted({call for page in PAGES for call in experiments_of(page)}), ids=" ".join)
def test_every_experiment_that_is_shown_has_these_options(call, monkeypatch, tmp_path):
    from experiments.__main__ import EXPERIMENTS, main

    monkeypatch.chdir(tmp_path)
    assert call[0] in EXPERIMENTS
    if len(call) == 1 or "--help" in call:  # a name in a sentence
        return
    plain = argparse.ArgumentParser.parse_known_args

    def parse_only(self, *given, **named):
        _, unknown = plain(self, *given, **named)
        assert not unknown, unknown
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", parse_only)
    with pytest.raises(Parsed):
        main(list(call))


def test_commands_are_found():
    assert len(CALLS) > 40 and ("train", "digits/simclr") in CALLS
