import os
import time

import pytest

from rince._support.yaml_files import LARGEST, read_yaml, read_yaml_text
from rince.errors import MissingFile, UsageError

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
MERGED = "b0: &b0 {x: 1}\n" + "".join(f"b{i}: &b{i} {{<<: [*b{i - 1}, *b{i - 1}]}}\n" for i in range(1, 40))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "stands for more than 20000 values"),
        (MERGED, "stands for more than 20000 values"),
        ("- a\n" * 200_000, "holds more than 20000 values"),
        ("a: 1" + ":1" * 400_000, "a number of 800001 digits"),  # to the base of 60
        ("a: 0x" + "f" * 5000, "a number of 5002 digits"),
        ("a: &a [*a]", "refer to themselves"),
        ("a: &a {b: &b [*a]}", "refer to themselves"),
        ("[" * 50_000, "nested too deeply"),
        ("a: [1", "no YAML: expected .* in line 1"),
        ("- 1", "it holds a list"),
        ("x" * (LARGEST + 1), "a configuration has at most"),
        ("date: 2024-13-45", "no YAML"),
        ("seed: 1\nname: x\nseed: 1\n", "x.yaml sets seed twice, in lines 1 and 3: keep one of them"),
        ("a: [{b: 1, b: 2}]", "sets b twice, in lines 1 and 1"),
        ("a: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_soon(tmp_path, text, message):
    (tmp_path / "x.yaml").write_text(text)
    start = time.process_time()
    with pytest.raises(UsageError, match=message):
        read_yaml(tmp_path / "x.yaml")
    assert time.process_time() - start < 5


def test_aliases_are_fine_as_long_as_they_are_few(tmp_path):
    (tmp_path / "x.yaml").write_text("a: &a {b: 1}\nc: [*a, *a]\n")
    assert read_yaml(tmp_path / "x.yaml") == {"a": {"b": 1}, "c": [{"b": 1}, {"b": 1}]}
    (tmp_path / "empty.yaml").write_text("")
    assert read_yaml(tmp_path / "empty.yaml") == {}


def test_other_than_a_text_file(tmp_path):
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"no text in UTF-8|no YAML"):
        read_yaml(tmp_path / "x.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    for name in ("pipe.yaml", "nothing.yaml", "."):
        with pytest.raises(MissingFile):
            read_yaml(tmp_path / name)


def test_a_name_may_come_twice_in_different_mappings_and_be_merged(tmp_path):
    (tmp_path / "x.yaml").write_text("a: &a {b: 1}\nc: {b: 2}\nd: {<<: *a, b: 3}\n1: x\n'1': y\n")
    assert read_yaml(tmp_path / "x.yaml") == {"a": {"b": 1}, "c": {"b": 2}, "d": {"b": 3}, 1: "x", "1": "y"}


@pytest.mark.parametrize("text", ("", "# nothing yet\n", "---\n"))
def test_an_empty_file_of_options_is_told(tmp_path, text):
    (tmp_path / "x.yaml").write_text(text)
    assert read_yaml(tmp_path / "x.yaml") == {}
    with pytest.raises(UsageError, match=r"x\.yaml is empty: write options into it"):
        read_yaml_text(tmp_path / "x.yaml")
