"""Encoders in formats that run without rince: ONNX, torch.export programs, and folders."""

import io
import json
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rince._support.atomic_files import atomic_folder, written_whole
from rince._support.optional_imports import import_library, require
from rince.errors import FileError, MissingExtra, UsageError

TOLERANCE = 1e-4  # largest difference of an output, relative to the largest output


def input_shape(encoder: nn.Module, size: int | None) -> tuple[int, ...]:
    """Shape of one input, without the batch: from the first layer, and for images the ``size`` that the views make."""
    for layer in encoder.modules():
        if isinstance(layer, nn.Linear):
            return (layer.in_features,)
        if isinstance(layer, nn.Conv2d) and size is not None:
            return (layer.in_channels, size, size)
        if isinstance(layer, nn.modules.conv._ConvNd):
            break
    raise UsageError(f"the input shape of {type(encoder).__name__} is not known: pass it, such as --shape 3 32 32")


def export_program(path: Path, encoder: nn.Module, shape: tuple[int, ...], metadata: dict[str, Any]) -> None:
    """Write a torch.export program with a free batch size; ``rince.json`` inside it holds the metadata."""
    program = _traced(encoder, shape)
    buffer = io.BytesIO()  # a full disk in the middle of torch.export.save would abort the process
    torch.export.save(program, buffer, extra_files={"rince.json": json.dumps(metadata)})
    with written_whole(path) as temporary:
        temporary.write_bytes(buffer.getbuffer())


def export_onnx(path: Path, encoder: nn.Module, shape: tuple[int, ...], metadata: dict[str, Any]) -> float | None:
    """Write an ONNX model with a free batch size, the metadata in its properties, and compare it with PyTorch.

    Returns:
        Largest difference of an output from PyTorch's, relative to the largest output; None without onnxruntime.

    Raises:
        MissingExtra: If onnx or onnxscript is missing.
        UsageError: If the encoder cannot be exported, or its outputs differ.
    """
    onnx = import_library("onnx", "onnx")
    import_library("onnxscript", "onnxscript")
    program = _traced(encoder, shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about operators of other opsets
        exported: Any = torch.onnx.export(
            program, input_names=["input"], output_names=["features"], dynamo=True, verbose=False
        )
    model = exported.model_proto
    onnx.helper.set_model_props(model, {"rince": json.dumps(metadata)})
    difference = _difference(model.SerializeToString(), encoder, shape)
    if difference is not None and not difference <= TOLERANCE:
        raise UsageError(f"{path} was not written: its outputs differ from PyTorch's by {difference:.1e} (relative)")
    with written_whole(path) as temporary:
        Path(temporary).write_bytes(model.SerializeToString())
    return difference


CARD = """---
library_name: {library}
tags: [contrastive-learning, rince]
---
An encoder trained by rince {version} with {method} and {loss}. Load it with

    {how}

`rince.json` records how it was trained and how its inputs were normalized.
"""


def export_folder(path: Path, encoder: nn.Module, metadata: dict[str, Any], force: bool = False) -> str:
    """Write a folder with the weights under the model's own names, a model card and ``rince.json``.

    A model of transformers is saved with its configuration. Of any other network the folder has ``model.safetensors``,
    a plain state dict; of models of timm and torchvision under the names that these libraries give it.

    Returns:
        The line of Python that loads it.

    Raises:
        ExistingFile: ``path`` has files, and ``force`` is False.
    """
    inner: Any = getattr(encoder, "model", None)
    with atomic_folder(path, force) as folder:
        if hasattr(inner, "save_pretrained"):
            library, how = "transformers", f'transformers.AutoModel.from_pretrained("{path}")'
            try:
                inner.save_pretrained(folder)
            except require("safetensors", "train").SafetensorError as error:  # a full disk
                raise FileError(f"{path} cannot be written ({error})") from error
        else:
            network = encoder if inner is None else inner
            library, how = "pytorch", f'model.load_state_dict(safetensors.torch.load_file("{path}/model.safetensors"))'
            state = {name: value.detach().cpu().contiguous().clone() for name, value in network.state_dict().items()}
            weights = require("safetensors.torch", "train").save(state, {"format": "pt"})
            (folder / "model.safetensors").write_bytes(weights)
        (folder / "rince.json").write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
        facts = {"version": metadata["rince"], "method": metadata["method"], "loss": metadata["loss"]["name"]}
        (folder / "README.md").write_text(CARD.format(library=library, how=how, **facts), encoding="utf-8")
    return how


def _traced(encoder: nn.Module, shape: tuple[int, ...]) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=1)
    try:
        return torch.export.export(encoder.eval(), (torch.rand(2, *shape),), dynamic_shapes=({0: batch},))
    except Exception as error:  # torch.export raises many kinds
        reason = " ".join(str(error).split())[:300]
        raise UsageError(f"{type(encoder).__name__} cannot be exported with inputs {shape}: {reason}") from error


@torch.no_grad()
def _difference(model: bytes, encoder: nn.Module, shape: tuple[int, ...]) -> float | None:
    try:
        runtime = import_library("onnxruntime", "onnxruntime")
    except MissingExtra:
        return None
    inputs = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0))
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    outputs = torch.from_numpy(session.run(None, {"input": inputs.numpy()})[0])
    expected: Tensor = encoder(inputs)
    return float((outputs - expected).abs().max() / expected.abs().max().clamp_min(1e-12))
