"""``rince train``: train an encoder from a configuration, or resume its run."""

from rince._support.command_options import print_result, without_output_options
from rince._support.progress import silence
from rince.errors import UsageError
from rince.train.config import NO_DATA, parse, train_parser
from rince.train.weights import train_with_weights


def main(arguments: list[str]) -> int:
    arguments, options = without_output_options(arguments)
    parser = train_parser()
    config = parse(parser, arguments)
    if config.data is None:
        raise UsageError(NO_DATA)
    with silence(options.quiet):
        result = train_with_weights(parser, config)
    if result is not None:
        loss = "" if result["loss"] is None else f" loss {result['loss']:.4f},"
        print_result(options, result, f"{result['run']}: {result['steps']} steps,{loss} {result['seconds']:.0f} s")
    return 0
