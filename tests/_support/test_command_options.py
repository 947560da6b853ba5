import argparse
from pathlib import Path

import pytest

from rince._support.command_options import check_counts, check_local, parsed, respelt
from rince.errors import UsageError


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
    ("values", "message"),
    [
        ({"seeds": 0}, "--seeds must be at least 1, got 0"),
        ({"tune_seeds": -1}, "--tune-seeds must be at least 1"),
    ],
)
def test_counts_that_make_no_sense_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        check_counts(argparse.Namespace(**values), "seeds", "workers", "tune_seeds")
    check_counts(argparse.Namespace(seeds=3, workers=None), "seeds", "workers", "epochs")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--labels 3 --xyz", "no option '--xyz' .see rince something --help"),
        ("--nam", "expected one argument"),
        ("--naem x", "no option '--naem'; did you mean '--name'"),
        ("--labels_per_class x", "invalid int value: 'x'"),
    ],
)
def test_what_is_wrong_is_one_sentence(parser, words, message):
    with pytest.raises(ValueError, match=message):
        parsed(parser, words.split())


@pytest.mark.parametrize("address", ["s3://bucket/x", "http://a.b/c", "file:///tmp/x", "gs-x://b"])
def test_an_address_is_no_place_to_write_to(address):
    with pytest.raises(UsageError, match=f"--out must be a local path, got the URL {address}"):
        check_local(address)


@pytest.mark.parametrize("place", ["runs", "/tmp/a:b", "C://runs", "s3:/x", "a b://c", "."])
def test_other_names_are_places(place):
    assert check_local(place) == Path(place)


@pytest.mark.parametrize(("place", "message"), [("", "must not be empty"), ("~/runs", "got ~/runs")])
def test_empty_path_and_unexpanded_tilde_are_rejected(place, message):
    with pytest.raises(UsageError, match=message):
        check_local(place)


def test_file_name_with_leading_dash_gets_a_hint(parser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-x.npy").write_bytes(b"")
    with pytest.raises(UsageError, match=r"-x\.npy .*\./-x\.npy"):
        parsed(parser, ["-x.npy"])
