"""Every built-in configuration and every documented command, for a few steps on tiny files in the real layout.

Precision is that of the configuration, and workers load data where it has any. Only sizes and lengths are smaller:
images, batches, networks, steps, and one worker for eight. The command of a configuration is the one in its
own header. A run is trained once per process; tests of one run share a process (``--dist loadgroup``).
"""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

pytest.importorskip("av")
pytest.importorskip("PIL")

from rince import cli
from support import tiny_data_sets
from support.crashes import CRASHES, Crash

REPOSITORY = Path(__file__).parents[1]
CONFIGS = REPOSITORY / "src" / "rince" / "configs"
NAMES = sorted(str(path.relative_to(CONFIGS).with_suffix("")) for path in CONFIGS.glob("*/*.yaml"))
COMMAND = re.compile(r"^[\s#]*(rince (?:train|finetune|evaluate|export) .*)$")
STEPS = "--trainer.max_steps 3 --checkpoint_every 2"
WORKERS = "--data.workers 1"
RESNET = "--encoder.depth 18"
VIDEO = f"--encoder.a.width 4 --encoder.b.width 4 --data.size 32 --views.a.size 32 --data.batch_size 4 {WORKERS}"
SMALL = {  # options for a small machine, by the folder or the name of a configuration
    "acav100m": f"{VIDEO} --data.subset 6 {STEPS}",
    "cifar10": f"{RESNET} --data.batch_size 4 {STEPS}",
    "cifar10/small-augmentation-noise": "--encoder.depth 1 --data.validation 20 --data.limit 20",
    "digits": f"--data.limit 128 --data.batch_size 32 {STEPS}",
    "imagenet": f"{RESNET} --data.size 32 --views.size 32 --data.batch_size 8 {WORKERS} {STEPS}",
    "imagenet/linear": f"--data.size 32 --views.size 32 --data.batch_size 8 {WORKERS}",
    "imagenet/linear-published": f"--data.size 32 --views.size 32 --data.batch_size 8 {WORKERS}",
    "imagenet/moco": "--method.queue 64",
    "imagenet/moco_v2": "--method.queue 64 --method.hidden 64",
    "imagenet/moco_v3": "--method.hidden 64",
    "kinetics400": f"{VIDEO} {STEPS}",
    "spoken_digits": STEPS,
    "tudataset": f"--data.batch_size 8 {STEPS}",
    "ucf101": f"--data.size 32 --views.size 32 --data.batch_size 2 --data.test_clips 2 {WORKERS}",
    "hmdb51": f"--data.size 32 --views.size 32 --data.batch_size 2 --data.test_clips 2 {WORKERS}",
}
GRAPHS = {"mutag": ("MUTAG", 7), "dd": ("DD", 89), "nci1": ("NCI1", 37), "proteins": ("PROTEINS", 3)}
GRAPHS |= {"reddit-binary": ("REDDIT-BINARY", 1), "imdb-binary": ("IMDB-BINARY", 1), "bzr": ("BZR", 53)}


def documented():
    """Commands of the documents that name a built-in configuration or a run of one, with the file they are from."""
    found = {}
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    for path in [*pages, *sorted(CONFIGS.rglob("*.yaml"))]:
        for line in path.read_text(encoding="utf-8").splitlines():
            if (match := COMMAND.match(line)) and "..." not in line:
                words = shlex.split(match[1], comments=True)
                if any(word in NAMES or config_of_run(word) for word in words[2:4]) and ">" not in words:
                    found.setdefault(shlex.join(words), path.relative_to(REPOSITORY))
    return [
        pytest.param(command, id=f"{path}: {command}"[:120], marks=one_process(trained_by(command)))
        for command, path in found.items()
    ]


def one_process(name):
    return pytest.mark.xdist_group(name)


def trained_by(command):
    """The configuration whose run a documented command makes or needs."""
    words = shlex.split(command)
    if words[1] != "train":
        return config_of_run(words[2])
    return next(word for word in words[2:] if word in NAMES)


def config_of_run(word):
    """kinetics400/rince for runs/kinetics400-rince."""
    runs = {f"runs/{name.replace('/', '-')}": name for name in NAMES}
    return runs.get(word.rstrip("/"))


class Workspace:
    """A folder with data sets and runs; each is made when it is first asked for."""

    def __init__(self, folder):
        self.folder, self.trained = folder, {}

    def data(self, name):
        """The path that a documented command has as DIR, and its other places."""
        family = name.split("/")[0]
        arguments = GRAPHS[name.split("/")[1]] if family == "tudataset" else ()
        if hasattr(tiny_data_sets, family):
            root = self.folder / "data" / (name if arguments else family)
            if not root.exists():
                getattr(tiny_data_sets, family)(root, *arguments)
            return root
        return None

    def command(self, words, name):
        """A documented command on the tiny data: places filled in, sizes small, on one process."""
        root = self.data(name)
        places = {"DIR": root, "LIST": root and root / "list.txt", "fsdd.zip": root, "data/tudataset": root}
        words = [str(places.get(word, root if word.startswith("FOLDER_WITH") else word)) for word in words]
        for option in ("--trainer.devices", "--trainer.num_nodes", "--data.download"):  # no cluster, no network
            if option in words:
                del words[words.index(option) : words.index(option) + 2]
        if words[1] in ("train", "finetune"):
            for start, options in SMALL.items():
                if start in (name, name.split("/")[0]):
                    words = with_options(words, options.split())
            if words[1] == "finetune":
                if "linear" not in name:
                    words = with_options(words, ["--method.head_epochs", "1"])
                words = with_options(words, ["--trainer.max_epochs", "2", "--trainer.limit_train_batches", "2"])
            words += ["--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false"]
        return words[1:]

    def train(self, name):
        """The run of a configuration, by the command of its header, interrupted once and resumed."""
        if name not in self.trained:
            words = shlex.split(COMMAND.match((CONFIGS / f"{name}.yaml").read_text().splitlines()[1])[1])
            run = f"runs/{name.replace('/', '-')}"
            words = self.command(with_options(words, ["--name", run.removeprefix("runs/")]), name)
            Crash.at = 2
            try:
                with pytest.raises(RuntimeError, match="crash"):
                    cli.main([*words, CRASHES])
            finally:
                Crash.at = -1
            assert not Path(run, "result.json").exists() and Path(run, "last.ckpt").exists()
            assert cli.main([*words, CRASHES]) == 0
            self.trained[name] = Path(run)
        return self.trained[name]


def with_options(words, options):
    """Options put at the end, in the place of equal ones."""
    for option in options[::2]:
        if option in words:
            del words[words.index(option) : words.index(option) + 2]
    return [*words, *options]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("configs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield Workspace(folder)


def is_finetuning(name):
    return name.split("/")[1].startswith(("finetune", "linear"))


pytestmark = [
    pytest.mark.filterwarnings("ignore:.*workers.*"),
    pytest.mark.filterwarnings("ignore:.*could not be used.*"),
]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=one_process(name)) for name in NAMES if not is_finetuning(name)]
)
def test_configuration_trains_resumes_evaluates_and_exports(name, workspace, tmp_path):
    run = workspace.train(name)
    result = json.loads((run / "result.json").read_text())
    written = yaml.safe_load((run / "config.yaml").read_text())
    shipped = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    assert result["steps"] == 3
    assert written["trainer"].get("precision") == shipped["trainer"].get("precision")
    if "workers" in shipped["data"].get("init_args", {}):
        assert shipped["data"]["init_args"]["workers"] > 0 and written["data"]["init_args"]["workers"] == 1
    if not name.startswith("acav100m"):  # no labels and no test part
        assert cli.main(["evaluate", str(run)]) == 0
    assert cli.main(["export", str(run), str(tmp_path / "encoder.safetensors")]) == 0


@pytest.mark.parametrize("command", documented())
def test_documented_command_runs(command, workspace, tmp_path, capsys):
    words = shlex.split(command)
    subcommand, first = words[1:3]
    name = next((word for word in words[2:4] if word in NAMES), None) or config_of_run(first)
    if subcommand == "train" and command in (CONFIGS / f"{name}.yaml").read_text():
        workspace.train(name)
        return
    if subcommand != "train":
        workspace.train(config_of_run(first))
    words = workspace.command(words, name)
    if subcommand in ("train", "finetune") and "--print_config" not in words:
        words = with_options(words, ["--out", str(tmp_path)])
    if subcommand in ("evaluate", "export"):
        words.append("--force")
    assert cli.main(words) == 0, capsys.readouterr().err


@pytest.mark.parametrize(("run", "config", "expected"), [
    pytest.param("kinetics400/rince", "ucf101/finetune", {"sound": False, "short": "loop"},
                 marks=one_process("kinetics400/rince")),
    pytest.param("acav100m/rince", "ucf101/finetune-8-frames", {"sound": False, "short": "loop"},
                 marks=one_process("acav100m/rince")),
    pytest.param("imagenet/moco_v3", "imagenet/linear", {"crop": [0.08, 1.0]}, marks=one_process("imagenet/moco_v3")),
])  # fmt: skip
def test_finetuning_data_start_from_the_defaults_of_their_own_class(run, config, expected, workspace, capsys):
    source = workspace.train(run)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        cli.main(["finetune", str(source), config, "--data.root", "DIR", "--print_config"])
    data = yaml.safe_load(capsys.readouterr().out)["data"]["init_args"]
    assert {name: data[name] for name in expected} == expected
