"""The Dockerfile and the examples of deploy/, as far as they can be checked without Docker, SLURM and Kubernetes."""

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from rince.commands import audit

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
DOCUMENTS = [
    pytest.param(document, id=f"{path.name}-{document['kind']}-{document['metadata']['name']}")
    for path in sorted(DEPLOY.glob("kubernetes/*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]
API = {"Service": "v1", "Job": "batch/v1", "Deployment": "apps/v1", "NetworkPolicy": "networking.k8s.io/v1"}


def containers(document):
    pod = document["spec"].get("template", {}).get("spec", {})
    return pod, pod.get("containers", [])


def container(file, kind, name):
    documents = yaml.safe_load_all((DEPLOY / "kubernetes" / file).read_text())
    document = next(one for one in documents if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return document, containers(document)[1][0]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_kubernetes_pods_run_without_root_and_mount_what_they_use(document):
    assert document["apiVersion"] == API[document["kind"]]
    pod, parts = containers(document)
    for part in parts:
        assert pod["securityContext"]["runAsNonRoot"] and part["securityContext"]["readOnlyRootFilesystem"]
        assert {mount["name"] for mount in part["volumeMounts"]} <= {volume["name"] for volume in pod["volumes"]}
        assert all(isinstance(word, str) for word in part["command"])
    if document["kind"] == "Deployment":
        selected, labels = (
            document["spec"]["selector"]["matchLabels"],
            document["spec"]["template"]["metadata"]["labels"],
        )
        assert selected.items() <= labels.items()
    if "podFailurePolicy" in document["spec"]:
        (rule,) = document["spec"]["podFailurePolicy"]["rules"]
        assert rule["onExitCodes"]["containerName"] in {part["name"] for part in parts}
        assert rule["onExitCodes"]["values"] == [2] and pod["restartPolicy"] == "Never"


def test_kubernetes_audit_has_valid_options():
    _, part = container("audit.yaml", "Job", "rince-audit")
    options = audit.parser().parse_args(part["command"][2:])
    scheduler = yaml.safe_load_all((DEPLOY / "kubernetes" / "audit.yaml").read_text())
    service = next(one for one in scheduler if one["kind"] == "Service")
    assert options.scheduler == f"tcp://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"


def test_kubernetes_training_runs_on_two_local_processes(tmp_path):
    """The torchrun command of both pods, with the names of the cluster replaced by this machine's."""
    job, part = container("train.yaml", "Job", "rince-train")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    small = ["--data.limit=128", "--data.batch_size=32", "--encoder.width=2", "--trainer.max_epochs=1"]
    pods = []
    for node in range(job["spec"]["completions"]):
        words = [word.replace("$(JOB_COMPLETION_INDEX)", str(node)) for word in part["command"][1:]]
        words = [word.replace("rince-train-0.rince-train", "127.0.0.1").replace("29500", str(port)) for word in words]
        words = [word.replace("/data/runs", str(tmp_path)) for word in words]
        command = [sys.executable, "-m", "torch.distributed.run", *words, *small, "--probe=false"]
        pods.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    for pod in pods:
        said = pod.communicate(timeout=300)[0]
        assert pod.returncode == 0, said
    assert (tmp_path / "digits-simclr" / "result.json").exists()


@pytest.mark.parametrize("script", sorted(DEPLOY.glob("slurm/*.sbatch")), ids=lambda path: path.name)
def test_slurm_script_is_valid_bash(script):
    subprocess.run(["bash", "-n", str(script)], check=True)
    assert re.search(r"(?m)^#SBATCH --time=", script.read_text())


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """An srun that runs its command here, as one task, and the variables of a job with one node."""
    tools = tmp_path / "bin"
    tools.mkdir()
    dask = shutil.which("dask", path=str(Path(sys.executable).parent)) or "dask"
    files = {
        "srun": 'while [[ "$1" == --* ]]; do shift; done\nexec "$@"',
        "rince": f'exec "{sys.executable}" -m rince "$@"',
        "dask": f'exec "{dask}" "$@"',
        "hostname": "echo 127.0.0.1",
    }
    for name, text in files.items():
        (tools / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (tools / name).chmod(0o755 | stat.S_IXUSR)
    monkeypatch.chdir(tmp_path)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        job = found.getsockname()[1] % 20000
    variables = {"SLURM_JOB_ID": job, "SLURM_NNODES": 1, "SLURM_NTASKS_PER_NODE": 1, "SLURM_CPUS_PER_TASK": 1}
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", **{name: str(v) for name, v in variables.items()}}


def test_slurm_training_runs_as_one_task(slurm, tmp_path):
    words = ["digits/simclr", "--data.limit", "128", "--encoder.width", "2", "--trainer.max_epochs", "1"]
    words += ["--trainer.accelerator", "cpu", "--probe", "false"]
    subprocess.run(["bash", str(DEPLOY / "slurm" / "train.sbatch"), *words], env=slurm, check=True, timeout=300)
    assert (tmp_path / "runs" / "digits-simclr" / "result.json").exists()


def test_slurm_audit_starts_a_cluster_and_ends_it(slurm, tmp_path):
    pytest.importorskip("distributed", reason="needs the extra cluster")
    a = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
    np.save("a.npy", a)
    np.save("b.npy", np.concatenate([np.roll(a[:100], 1, axis=0), a[100:]]))
    script = str(DEPLOY / "slurm" / "audit.sbatch")
    subprocess.run(["bash", script, "a.npy", "b.npy", "--out", "audit"], env=slurm, check=True, timeout=300)
    assert (tmp_path / "audit" / "audit.json").exists()


def test_image_installs_the_pinned_torch_and_is_not_root():
    text = (ROOT / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    user, entry = lines.index("USER rince"), lines.index('ENTRYPOINT ["rince"]')
    assert user < entry and lines[0].startswith("FROM python:3.1")
    assert not any(line.startswith("USER") for line in lines[user + 1 :])
    assert "^torch==" in text and re.search(r"(?m)^torch==", (ROOT / "constraints.txt").read_text())
    copied = re.findall(r"(?m)^COPY (.*) \./\S*$", text)
    allowed = (ROOT / ".dockerignore").read_text()
    assert copied and all(f"!{name}\n" in allowed and (ROOT / name).exists() for row in copied for name in row.split())
