"""The paper's experiments as commands, one file an experiment."""
