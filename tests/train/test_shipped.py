import pytest

from rince.train.shipped import SHIPPED, find_config, first_comment, shipped, short_name


def test_every_configuration_has_a_short_name_and_says_what_it_is():
    assert len(shipped()) == len(list(SHIPPED.rglob("*.yaml"))) > 20
    for name, path in shipped().items():
        assert path == SHIPPED / f"{name}.yaml" and len(first_comment(path)) > 20
        command = "finetune" if name.split("/")[1].startswith(("finetune", "linear")) else "train"
        assert f"rince {command}" in path.read_text() and name in path.read_text()


@pytest.mark.parametrize("name", ["digits/simclr", "digits/simclr.yaml", "configs/digits/simclr.yaml"])
def test_a_short_name_finds_what_ships(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_config(name) == SHIPPED / "digits/simclr.yaml"
    assert short_name(find_config(name)) == "digits/simclr"


def test_a_file_of_the_users_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "simclr").write_text("seed: 1")
    assert find_config("digits/simclr").resolve() == tmp_path / "digits" / "simclr"
    assert short_name(find_config("digits/simclr")) is None


def test_an_unknown_name_is_one_sentence_with_the_nearest_and_all_names():
    with pytest.raises(
        FileNotFoundError, match=r"no configuration digit/simclr; did you mean 'digits/simclr'\?"
    ) as caught:
        find_config("digit/simclr")
    assert all(name in str(caught.value) for name in shipped()) and "\n" not in str(caught.value)
