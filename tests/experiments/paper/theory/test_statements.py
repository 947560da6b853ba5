"""5,000 random cases for every statement: none contradicts a true one, some contradict a false one."""

import doctest
import functools
import importlib
import pkgutil

import pytest
import torch

import rince
from experiments.paper import theory
from experiments.paper.theory.statements import STATEMENTS

TOPICS = sorted({statement.topic for statement in STATEMENTS})


@pytest.mark.parametrize("topic", TOPICS)
def test_true_statements_have_no_counterexample_and_false_ones_have(topic):
    found = {s.text: s.violations(cases=5000) for s in STATEMENTS if s.topic == topic}
    surprising = {s.text: found[s.text] for s in STATEMENTS if s.topic == topic and s.holds != (found[s.text] == 0)}
    assert not surprising


def test_every_topic_has_a_statement_of_either_kind():
    for topic in TOPICS:
        assert {statement.holds for statement in STATEMENTS if statement.topic == topic} == {True, False}
    assert len({(statement.topic, statement.text) for statement in STATEMENTS}) == len(STATEMENTS)


MODULES = [module.name for module in pkgutil.walk_packages(theory.__path__, f"{theory.__name__}.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name):
    module = importlib.import_module(name)
    names = {**vars(module), "torch": torch, "rince": rince, "functools": functools}
    for example in doctest.DocTestFinder(recurse=True).find(module, globs=names):
        assert doctest.DocTestRunner(verbose=False).run(example).failed == 0, example.name
