"""``rince export RUN FILE``: the encoder of a run as a file of its own."""

import argparse
from pathlib import Path

from rince._support.command_options import local_path, parsed
from rince.errors import ExistingFile, UsageError


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="rince export", description="Write the encoder of a run to a file of its own.", exit_on_error=False
    )
    parser.add_argument("run", help="folder of the run, finished or not")
    parser.add_argument("file", type=local_path, help="where to: NAME.safetensors")
    parser.add_argument("--force", action="store_true", help="write over an existing file")
    parser.add_argument("--trust-config", action="store_true", help="import classes that are not rince's own")
    found = parsed(parser, arguments)
    if Path(found.file).suffix != ".safetensors":
        raise UsageError(f"an encoder is written as .safetensors, got {found.file}")
    if Path(found.file).exists() and not found.force:
        raise ExistingFile(f"{found.file} is there already: give another name, or write over it with --force")
    from rince.encoders.files import save_encoder
    from rince.train.about import about, recipe_of
    from rince.train.load import load_run

    method, data, config = load_run(found.run, trust=found.trust_config)
    save_encoder(found.file, method.encoder, recipe_of(config.encoder), about(method, data, config))
    print(f'{found.file}: load it with rince.load_encoder("{found.file}")')
    return 0
