"""``rince train``: train an encoder from a configuration, or go on where it stopped."""

from rince.errors import UsageError
from rince.train.parser import NO_DATA, parse, train_parser
from rince.train.run import run


def main(arguments: list[str]) -> int:
    if not arguments:
        raise UsageError(NO_DATA)
    parser = train_parser()
    config = parse(parser, arguments)
    if config.data is None:
        raise UsageError(NO_DATA)
    result = run(parser, config)
    if result is not None:
        loss = "" if result["loss"] is None else f" loss {result['loss']:.4f},"
        print(f"{result['run']}: {result['steps']} steps,{loss} {result['seconds']:.0f} s")
    return 0
