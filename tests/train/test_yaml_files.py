import pytest

from rince.errors import MissingFile, UsageError
from rince.train.run_folder import read_yaml


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [1", "is not valid YAML: expected ',' or ']'"),
        ("a: 2024-13-45", "is not valid YAML"),
        ("- 1\n- 2\n", "holds a list"),
        ("a: 1\nb: {c: 1, d: 2, c: 3}\n", "sets c twice, in lines 2 and 2"),
        ("a: !!python/object/apply:os.system [ls]", "is not valid YAML"),
    ],
)
def test_bad_file_is_one_sentence(tmp_path, text, told):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_yaml(path)
    assert told in str(caught.value) and "\n" not in str(caught.value) and "x.yaml" in str(caught.value)


def test_bytes_that_are_not_text_are_one_sentence(tmp_path):
    (tmp_path / "x.yaml").write_bytes(b"a: \xff\xfe\x00")
    with pytest.raises(UsageError, match=r"x\.yaml"):
        read_yaml(tmp_path / "x.yaml")
    with pytest.raises(MissingFile):
        read_yaml(tmp_path / "nowhere.yaml")


def test_values_are_read(tmp_path):
    (tmp_path / "x.yaml").write_text("a: &x {b: 1}\nc: {<<: *x, d: 2}\n")
    assert read_yaml(tmp_path / "x.yaml") == {"a": {"b": 1}, "c": {"b": 1, "d": 2}}
    (tmp_path / "x.yaml").write_text("# nothing\n")
    assert read_yaml(tmp_path / "x.yaml") == {}
