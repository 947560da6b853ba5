"""Fine-tuning on video: every configuration can be built, and real files without sound are learnt from."""

import json
from pathlib import Path

import pytest
import torch
import yaml

pytest.importorskip("av")

from rince.encoders.audio import AudioConvNet
from rince.encoders.r2plus1d import R2Plus1D
from rince.encoders.towers import Towers

from rince import cli
from rince.encoders.files import save_encoder
from rince.train.config import finetune_parser, instantiate, parse
from rince.train.finetune import Source, complete
from rince.train.short_names import CONFIGS
from support.video.films import film

TINY = {
    "class_path": "rince.encoders.heads.Towers",
    "init_args": {
        "a": {"class_path": "rince.encoders.video.R2Plus1D", "init_args": {"width": 2, "blocks": [1, 1]}},
        "b": {"class_path": "rince.encoders.video.AudioConvNet", "init_args": {"width": 2}},
    },
}


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*/finetune*.yaml")), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_configuration_describes_a_method_that_can_be_built(path):
    source = Source(Path("run"), Path("run/encoder.safetensors"), {"encoder": TINY})
    parser = finetune_parser(source.parts)
    config = parse(parser, [str(path)])
    complete(config, source)
    config.method.init_args.classes = 5
    parts = instantiate(parser, config)
    method = parts.method(parts.encoder, parts.loss, parts.views, parts.optimizer)
    assert method.encoder.features == 4 and method.head.out_features == 5 and config.out == "runs/run"
    form = parts.data.form
    clips = torch.randint(0, 255, (2, form.num_frames, 40, 40, 3), dtype=torch.uint8)
    recipe = type(method.views)(size=16)
    with torch.no_grad():
        assert method.project(method.encoder(recipe.plain(clips))).shape == (2, 5)
    assert not form.sound and parts.data.test_clips == 10


@pytest.fixture
def run(tmp_path):
    """A finished cross-modal run, as far as fine-tuning looks at it."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump({"encoder": TINY}))
    torch.manual_seed(0)
    save_encoder(folder / "encoder.safetensors", Towers(R2Plus1D(2, [1, 1]), AudioConvNet(2)), TINY, {})
    return folder


def finetune(run, config, root, frames, *options):
    return cli.main(
        ["finetune", str(run), str(CONFIGS / config), "--data.root", str(root), "--data.num_frames", str(frames),
         "--data.size", "32", "--views.size", "32", "--data.batch_size", "2", "--data.workers", "0",
         "--data.test_clips", "3", "--trainer.max_epochs", "2", "--method.head_epochs", "1",
         "--trainer.precision", "32-true", "--trainer.sync_batchnorm", "false", "--trainer.accelerator", "cpu",
         "--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false", *options]
    )  # fmt: skip


def test_ucf101_without_sound(run, real_data, tmp_path):
    """Two real files stand for two classes; the clips are longer than those of pre-training."""
    root, lists = tmp_path / "ucf", tmp_path / "ucf" / "ucfTrainTestlist"
    lists.mkdir(parents=True)
    files = {"Juggling": "v_SoccerJuggling_g23_c01.avi", "Soccer": "v_SoccerJuggling_g24_c01.avi"}
    for name, file in files.items():
        (root / name).mkdir()
        (root / name / file).symlink_to(real_data(f"video/{file}"))
    (lists / "classInd.txt").write_text("1 Juggling\n2 Soccer\n")
    for split in (1, 2):
        (lists / f"trainlist0{split}.txt").write_text(
            "".join(f"{name}/{file} {i + 1}\n" for i, (name, file) in enumerate(files.items()))
        )
        (lists / f"testlist0{split}.txt").write_text("".join(f"{name}/{file}\n" for name, file in files.items()))
    assert finetune(run, "ucf101/finetune.yaml", root, 32, "--splits", "1", "2") == 0
    folder = run / "ucf101-finetune"
    whole = json.loads((folder / "result.json").read_text())
    first = json.loads((folder / "split-1" / "result.json").read_text())
    assert set(whole["splits"]) == {"1", "2"} and first["steps"] == 10 and first["test_items"] == 2
    assert not (folder / "split-1" / "skipped.csv").exists()


def test_hmdb51_without_sound(run, real_data, tmp_path):
    root, lists = tmp_path / "hmdb", tmp_path / "hmdb" / "testTrainMulti_7030_splits"
    lists.mkdir(parents=True)
    files = {
        "wave": ["RATRACE_wave_f_nm_np1_fr_goo_37.avi", "TrumanShow_wave_f_nm_np1_fr_med_26.avi"],
        "greet": ["SchoolRulesHowTheyHelpUs_wave_f_nm_np1_ba_med_0.avi"],
    }
    for name, found in files.items():
        (root / name).mkdir()
        for file in found:
            (root / name / file).symlink_to(real_data(f"video/{file}"))
        use = [1, 2] if len(found) > 1 else [1]
        lines = [f"{file} {number}\n" for file, number in zip(found, use, strict=True)]
        (lists / f"{name}_test_split1.txt").write_text("".join(lines))
    assert finetune(run, "hmdb51/finetune.yaml", root, 8) == 0
    result = json.loads((run / "hmdb51-finetune" / "result.json").read_text())
    assert result["steps"] == 20 and result["test_items"] == 1 and result["accuracy"] in (0.0, 100.0)


@pytest.fixture
def sounds(tmp_path):
    """Tables of six videos to train on and to test on; of two of the latter nobody knows the class."""
    for i in range(6):
        film(tmp_path / f"{i}.mp4", seconds=1.2, size=(32, 32), rate=24000)
    labels = ("cat", "dog")
    (tmp_path / "train.csv").write_text("path,label\n" + "".join(f"{i}.mp4,{labels[i % 2]}\n" for i in range(6)))
    known = [labels[i % 2] if i < 4 else "" for i in range(6)]
    (tmp_path / "test.csv").write_text("path,label\n" + "".join(f"{i}.mp4,{label}\n" for i, label in enumerate(known)))
    return tmp_path


def hear(run, sounds, *options):
    data = {
        "data": {
            "class_path": "rince.data.video.videos.Videos",
            "init_args": {
                "root": str(sounds), "table": str(sounds / "train.csv"), "num_frames": 2, "size": 16, "batch_size": 3,
                "audio_duration": 0.5, "sample_rate": 8000, "workers": 0, "test_clips": 2,
            },
        },
        "views": {
            "class_path": "rince.views.pair.SoundRecipe",
            "init_args": {"sample_rate": 8000, "window": 128, "hop": 0.016},
        },
    }  # fmt: skip
    (sounds / "hear.yaml").write_text(yaml.safe_dump(data))
    quiet = ["--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false"]
    return cli.main(
        ["finetune", str(run), str(sounds / "hear.yaml"), "--tower", "b", "--name", "heard", *quiet,
         "--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", *options]
    )  # fmt: skip


def test_the_tower_of_sounds_is_fine_tuned_tested_and_evaluated(run, sounds, capsys):
    assert hear(run, sounds, "--data.test_table", str(sounds / "test.csv")) == 0
    assert "on 4 test items (2 unlabeled items skipped)" in capsys.readouterr().out
    result = json.loads((run / "heard" / "result.json").read_text())
    assert result["test_items"] == 4 and result["test_items_without_label"] == 2
    assert cli.main(["evaluate", str(run / "heard"), "--k", "3"]) == 0
    assert "linear" in capsys.readouterr().out


def test_missing_test_part_and_sample_rate_fail_before_training(run, sounds, capsys):
    assert hear(run, sounds) == 2
    assert "there is no part 'test'" in capsys.readouterr().err
    assert not (run / "heard" / "last.ckpt").exists()
    table = ["--data.test_table", str(sounds / "test.csv")]
    assert hear(run, sounds, *table, "--data.sample_rate", "12000") == 2
    assert "data.sample_rate is 12000, that of SoundRecipe is 8000" in capsys.readouterr().err
    assert hear(run, sounds, *table) == 0
