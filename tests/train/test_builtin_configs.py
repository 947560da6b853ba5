import pytest
import yaml

from rince.train.config import build, finetune_parser, parse, parse_settings, train_parser
from rince.train.load import only_known_classes
from rince.train.short_names import CONFIGS, builtin_configs, configs_for, find_config, short_name


def is_finetuning(name):
    return name.split("/")[1].startswith(("finetune", "linear"))


def test_every_configuration_belongs_to_one_command_and_has_a_title():
    assert len(builtin_configs()) == len(list(CONFIGS.rglob("*.yaml"))) > 20
    for command in ("train", "finetune"):
        titles = configs_for(command)
        assert set(titles) == {name for name in builtin_configs() if is_finetuning(name) == (command == "finetune")}
        assert all(len(title) > 20 for title in titles.values())


@pytest.mark.parametrize("name", ["digits/simclr", "digits/simclr.yaml", "configs/digits/simclr.yaml"])
def test_short_name_finds_the_file(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_config(name) == CONFIGS / "digits/simclr.yaml"
    assert short_name(find_config(name)) == "digits/simclr"


def test_file_of_the_user_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "simclr").write_text("seed: 1")
    assert find_config("digits/simclr").resolve() == tmp_path / "digits" / "simclr"
    assert short_name(find_config("digits/simclr")) is None


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(FileNotFoundError, match=r"digit/simclr; did you mean 'digits/simclr'\?"):
        find_config("digit/simclr")


@pytest.mark.parametrize("name", builtin_configs())
def test_run_of_a_builtin_configuration_needs_no_custom_code(name):
    parser = finetune_parser() if is_finetuning(name) else train_parser()
    settings = yaml.safe_load(parser.dump(parse(parser, [name])))
    settings = {key: value for key, value in settings.items() if key not in ("trainer", "config")}
    with only_known_classes(builtin_configs()[name]):
        config = parse_settings(parser, settings)
        if config.get("data") is not None and not is_finetuning(name):
            assert build(parser, config).method is not None
