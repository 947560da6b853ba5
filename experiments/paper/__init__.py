"""The paper's tables, figures and statements."""
