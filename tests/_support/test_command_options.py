import argparse

import pytest

from rince._support.command_options import parsed, respelt


@pytest.fixture
def parser():
    parser = argparse.ArgumentParser("rince something", exit_on_error=False)
    parser.add_argument("--labels_per_class", type=int)
    parser.add_argument("--so-far", action="store_true")
    parser.add_argument("--name")
    return parser


@pytest.mark.parametrize("words", ["--labels-per-class 3 --so_far", "--labels_per_class=3 --so-far"])
def test_dashes_and_underscores_are_the_same(parser, words):
    found = parsed(parser, words.split())
    assert found.labels_per_class == 3 and found.so_far


def test_values_are_left_alone(parser):
    assert respelt(parser, ["--name", "so_far", "so-far", "--name=a_b-c"]) == [
        "--name",
        "so_far",
        "so-far",
        "--name=a_b-c",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--labels 3 --xyz", "no option '--xyz' .rince something --help"),
        ("--nam", "expected one argument"),
        ("--naem x", "no option '--naem'; did you mean '--name'"),
        ("--labels_per_class x", "invalid int value: 'x'"),
    ],
)
def test_what_is_wrong_is_one_sentence(parser, words, message):
    with pytest.raises(ValueError, match=message):
        parsed(parser, words.split())
