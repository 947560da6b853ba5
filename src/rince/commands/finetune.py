"""``rince finetune RUN``: train the encoder of a run on labels, and test it."""

from typing import Any

from rince._support.command_options import print_result, without_output_options
from rince._support.progress import silence
from rince.errors import UsageError
from rince.train.config import finetune_parser, named_classes, normalized, parse
from rince.train.finetune import check_file, fine_tune, read_source
from rince.train.load import checked_parts

ALLOW = ("--allow-custom-code", "--allow_custom_code", "--trust-config", "--trust_config")  # the last two: until 0.4


def main(arguments: list[str]) -> int:
    arguments, output = without_output_options(arguments)
    if not arguments or arguments[0].startswith("-"):
        raise UsageError("missing run: rince finetune RUN [CONFIG] [options]")
    source = read_source(arguments[0])
    options = normalized([word for word in arguments[1:] if word not in ALLOW])
    named = named_classes(options)
    check_file(source, named)
    used = {name: part for name, part in source.parts.items() if name not in named}
    if not set(ALLOW) & set(arguments):
        used = checked_parts(used, source.path)
    parser = finetune_parser(used)
    config = parse(parser, options)
    config.run = str(source.path)
    with silence(output.quiet):
        results = list(fine_tune(parser, config, source))
    if results:
        print_result(output, results, "\n".join(map(sentence, results)))
    return 0


def sentence(result: dict[str, Any]) -> str:
    if "splits" in result:
        return f"{result['run']}: accuracy {result['accuracy']:.2f} %, the mean of {len(result['splits'])} splits"
    unlabeled = f" ({left} unlabeled items skipped)" if (left := result.get("test_items_without_label")) else ""
    return (
        f"{result['run']}: accuracy {result['accuracy']:.2f} % on {result['test_items']} test items{unlabeled} after "
        f"{result['epochs']} epochs, {result['seconds']:.0f} s"
    )
