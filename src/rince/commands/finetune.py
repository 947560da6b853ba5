"""``rince finetune RUN``: train the encoder of a run further on labels, and test it."""

from typing import Any

from rince.errors import UsageError
from rince.train.finetune import check_file, fine_tune, finetune_parser, read_source
from rince.train.parser import named_classes, parse


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        raise UsageError("say what to fine-tune: rince finetune RUN [CONFIG] [options]")
    source = read_source(arguments[0])
    rest = ["--config", *arguments[1:]] if arguments[1:] and not arguments[1].startswith("-") else arguments[1:]
    check_file(source, named_classes(rest))
    parser = finetune_parser(source)
    config = parse(parser, arguments[1:])
    config.run = str(source.path)
    for result in fine_tune(parser, config, source):
        print(sentence(result))
    return 0


def sentence(result: dict[str, Any]) -> str:
    if "splits" in result:
        return f"{result['run']}: accuracy {result['accuracy']:.2f} %, the mean of {len(result['splits'])} splits"
    without = f" ({left} more have no label)" if (left := result.get("test_items_without_label")) else ""
    return (
        f"{result['run']}: accuracy {result['accuracy']:.2f} % on {result['test_items']} test items{without} after "
        f"{result['epochs']} epochs, {result['seconds']:.0f} s"
    )
