"""``rince export RUN FILE``: write the encoder of a run to a file or folder of its own."""

import argparse
from pathlib import Path
from typing import Any

from rince._support.atomic_files import check_out_folder
from rince._support.command_options import add_allow_custom_code, local_path, parsed
from rince.errors import ExistingFile, UsageError

FORMATS = (".safetensors", ".onnx", ".pt2")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="rince export",
        description="Write the encoder of a run to a safetensors, ONNX or torch.export file, or to a folder.",
        exit_on_error=False,
    )
    parser.add_argument("run", help="folder of the run")
    parser.add_argument(
        "file",
        type=local_path,
        help="file to write: NAME.safetensors for rince.load_encoder, NAME.onnx, NAME.pt2 for torch.export.load, or a "
        "folder for transformers or plain torch",
    )
    parser.add_argument("--shape", type=int, nargs="+", help="shape of one input for .onnx and .pt2, such as 3 32 32")
    parser.add_argument("--tower", choices=("a", "b"), help="encoder of a cross-modal run, except for .safetensors")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    add_allow_custom_code(parser)
    options = parsed(parser, arguments)
    file = Path(options.file)
    if file.suffix not in (*FORMATS, ""):
        raise UsageError(f"the file must end in {', '.join(FORMATS)} or be a folder, without an ending, got {file}")
    if file.suffix and file.exists() and not options.force:
        raise ExistingFile(f"{file} exists: overwrite it with --force")
    from rince.train.load import load_run
    from rince.train.run import encoder_metadata, encoder_recipe

    method, data, config = load_run(options.run, allow_custom_code=options.allow_custom_code)
    metadata = encoder_metadata(method, data, config)
    if file.suffix == ".safetensors":
        from rince.encoders.files import save_encoder

        save_encoder(file, method.encoder, encoder_recipe(config.encoder), metadata)
        print(f'{file}: load it with rince.load_encoder("{file}")')
    else:
        print(_export(file, method.encoder, metadata, options))
    return 0


def _export(file: Path, encoder: Any, metadata: dict[str, Any], options: argparse.Namespace) -> str:
    from rince.train.export import export_folder, export_onnx, export_program, input_shape

    normalize = metadata["normalize"]
    if hasattr(encoder, "a") and hasattr(encoder, "b"):
        if options.tower is None:
            raise UsageError(f"{options.run} has two encoders: choose --tower a or --tower b")
        encoder, normalize = getattr(encoder, options.tower), (normalize or {}).get(options.tower)
    elif options.tower is not None:
        raise UsageError(f"{options.run} has one encoder: omit --tower {options.tower}")
    if not file.suffix:
        check_out_folder(file, "the encoder")
        return f"{file}: load it with {export_folder(file, encoder, metadata, options.force)}"
    shape = tuple(options.shape) if options.shape else input_shape(encoder, (normalize or {}).get("size"))
    inputs = " x ".join(map(str, shape))
    if file.suffix == ".pt2":
        export_program(file, encoder, shape, metadata)
        return f'{file}: inputs batch x {inputs}; load it with torch.export.load("{file}").module()'
    difference = export_onnx(file, encoder, shape, metadata)
    checked = "not verified (onnxruntime is not installed)"
    if difference is not None:
        checked = f"verified, relative difference from PyTorch at most {difference:.1e}"
    return f"{file}: inputs batch x {inputs}; {checked}"
