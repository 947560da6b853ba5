"""The paper's tables and figures and some more: one file for each experiment, found by ``rince reproduce``."""
