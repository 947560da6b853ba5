"""Every statement of docs/theory.md, and how many random cases contradict it.

python benchmarks/theory.py --cases 5000 --seed 0
"""

import argparse
import time

import torch

from rince.theory.statements import STATEMENTS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=5000, help="random cases for each statement (5000)")
    parser.add_argument("--seed", type=int, default=0, help="of the random cases (0)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = time.process_time()
    print("| about | statement | true | cases | contradicted |\n| --- | --- | --- | --- | --- |")
    wrong = 0
    for each in STATEMENTS:
        found = each.violations(options.cases, options.seed)
        wrong += (found == 0) != each.holds
        text = each.text.replace("|", "\\|")
        print(
            f"| {each.topic} | {text} | {'yes' if each.holds else 'no'} | {options.cases:,} | {found:,} |", flush=True
        )
    print(f"\n{len(STATEMENTS)} statements, {wrong} of them not as said, {time.process_time() - start:.0f} CPU s")


if __name__ == "__main__":
    main()
