"""README and docs: code blocks run, commands have the options shown, links and named tests exist."""

import argparse
import contextlib
import re
import shlex
from pathlib import Path

import pytest

from rince import cli
from rince.train.short_names import builtin_configs

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "experiments" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
TEXTS = {page: page.read_text("utf-8") for page in PAGES}


@pytest.mark.parametrize("page", [p for p in PAGES if "```python\n" in TEXTS[p]], ids=lambda p: p.name)
def test_code_blocks_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", TEXTS[page], re.DOTALL):
        exec(compile(code, str(page), "exec"), names)


def test_links_between_pages_lead_to_files():
    for page, text in TEXTS.items():
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/reliability.md"])
def test_tests_named_in_a_table_exist(page):
    path = ""
    for match in re.findall(r"`(tests/[\w/.]+)?(?:::(\w+))?`", (ROOT / page).read_text("utf-8")):
        path, name = match[0] or path, match[1]
        assert not path or (ROOT / path).exists(), f"{page} names {path}"
        assert not name or f"def {name}(" in (ROOT / path).read_text("utf-8"), f"{page} names {path}::{name}"


def test_scripts_named_in_pages_exist():
    for page, text in TEXTS.items():
        for script in re.findall(r"python ((?:benchmarks|examples|scripts)/\w+\.py)", text):
            assert (ROOT / script).exists(), f"{page.name} names {script}"
        for module in re.findall(r"python -m ((?:experiments|docs)\.[\w.]+)", text):
            assert (ROOT / f"{module.replace('.', '/')}.py").exists(), f"{page.name} names {module}"


def rince_commands(text):
    """Arguments of ``rince`` in code blocks, and in inline code that is a whole command."""
    lines = re.findall(rf"^ *(?:\$ )?rince ((?:{'|'.join(cli.COMMANDS)})\b[^>\n]*)", text, re.MULTILINE)
    inline = re.findall(r"`rince (\w+\s+[^-`][^`]*)`", text)
    calls = [tuple(shlex.split(" ".join(line.split()), comments=True)) for line in [*lines, *inline]]
    return [c for c in calls if c[0] in cli.COMMANDS and not any(word.isupper() or "[" in word for word in c[:2])]


def experiment_commands(text):
    """Arguments of ``python -m experiments`` in code blocks and inline code."""
    lines = re.findall(r"(?:^|`) *(?:\$ )?python -m experiments ([a-z0-9][^`>\n]*)", text, re.MULTILINE)
    calls = [tuple(shlex.split(line, comments=True)) for line in lines]
    return [call for call in calls if not any("[" in word or word == "..." for word in call)]


HEADERS = [
    tuple(line.split())
    for path in builtin_configs().values()
    for line in re.findall(r"^#   rince (.+)$", path.read_text("utf-8"), re.MULTILINE)
]
COMMANDS = sorted({*HEADERS, *(call for text in TEXTS.values() for call in rince_commands(text))})
EXPERIMENT_COMMANDS = sorted({call for text in TEXTS.values() for call in experiment_commands(text)})


class Parsed(BaseException):
    """argparse accepted all options."""


def parse_only(main, arguments, monkeypatch):
    """Call a main function until argparse has accepted its arguments, or until it succeeds without parsing any."""
    parse_known_args = argparse.ArgumentParser.parse_known_args

    def parse(self, *args, **kwargs):
        _, unknown = parse_known_args(self, *args, **kwargs)
        assert not unknown, unknown
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", parse)
    with contextlib.suppress(Parsed):
        assert main(list(arguments)) == 0


@pytest.fixture(scope="module")
def trainer_parsers():
    from rince.train.config import finetune_parser, parse_settings, train_parser

    finetune = finetune_parser()
    digits = parse_settings(train_parser(), {"data": {"class_path": "rince.data.images.DigitImages"}})
    finetune.set_defaults({"data": digits.data.as_dict()})
    return {"train": train_parser(), "finetune": finetune}


@pytest.mark.parametrize("call", COMMANDS, ids=" ".join)
def test_command_has_the_options_shown(call, trainer_parsers, monkeypatch, tmp_path):
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")  # configurations of a clone
    monkeypatch.chdir(tmp_path)
    command, *arguments = call
    if {"--loss.qq", "pairs.yaml", "videos.yaml"} & set(arguments):  # a mistake shown, and files of the reader
        return
    if command not in trainer_parsers or arguments == ["--list"]:
        parse_only(cli.main, call, monkeypatch)
        return
    from rince.train.config import parse

    try:
        parse(trainer_parsers[command], arguments[command == "finetune" :])
    except SystemExit as end:  # --print-config and --loss.help
        assert end.code == 0


@pytest.mark.parametrize("call", EXPERIMENT_COMMANDS, ids=" ".join)
def test_experiment_has_the_options_shown(call, monkeypatch, tmp_path):
    from experiments.__main__ import EXPERIMENTS, main

    monkeypatch.chdir(tmp_path)
    assert call[0] in EXPERIMENTS
    if len(call) > 1 and "--help" not in call:
        parse_only(main, call, monkeypatch)


def test_commands_are_found_in_the_pages():
    assert len(COMMANDS) > 40 and ("train", "digits/simclr") in COMMANDS
    assert len(EXPERIMENT_COMMANDS) > 40 and ("flickr8k",) in EXPERIMENT_COMMANDS
