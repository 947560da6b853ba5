"""``rince finetune RUN``: train the encoder of a run further on labels, and test it."""

from pathlib import Path
from typing import Any

from rince._support.yaml_files import read_yaml
from rince.errors import UsageError
from rince.train.finetune import check_file, check_head_epochs, fine_tune, finetune_parser, read_source, usable
from rince.train.foreign_code import dotted_names, trusting, without_fetching
from rince.train.parser import named_classes, options_in, parse, spelled_out


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        raise UsageError("say what to fine-tune: rince finetune RUN [CONFIG] [options]")
    source = read_source(arguments[0])
    trust = any(word in ("--trust-config", "--trust_config") for word in arguments)
    rest = spelled_out([word for word in arguments[1:] if word not in ("--trust-config", "--trust_config")])
    named = named_classes(rest)
    check_file(source, named)
    if not trust:
        source = source._replace(parts=without_fetching(source.parts))
    own = [read_yaml(Path(value)) for name, value in options_in(rest) if name == "config" and value is not None]
    used = {name: part for name, part in source.parts.items() if name not in named}
    with trusting(used, source.path, trust, dotted_names(rest, own)):
        with usable(source):
            parser = finetune_parser(source)
            config = parse(parser, rest)
        check_head_epochs(config, [name for name, _ in options_in(rest)])
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
