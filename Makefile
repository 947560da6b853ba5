# Two commands matter: `make demo` and `make test`. Both set up .venv by themselves, once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
MINIMUM := .venv-minimum

.PHONY: demo test test-peers test-minimum fuzz fuzz-short lint format bench docs clean

demo: $(VENV)/.demo
	$(BIN)/rince demo

test: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

# The oldest versions that pyproject.toml allows, in an environment of their own, and what depends on them most.
test-minimum: $(MINIMUM)/.installed
	OMP_NUM_THREADS=1 PYTHONPATH=src $(MINIMUM)/bin/python -m pytest -p no:cacheprovider tests/train/test_parser.py \
	  tests/train/test_disturbed.py tests/train/test_foreign_code.py tests/encoders tests/losses/test_objectives.py tests/_support

fuzz: $(VENV)/.dev
	$(BIN)/python tests/fuzz

fuzz-short: $(VENV)/.dev
	$(BIN)/python tests/fuzz --seconds 20 --seed 1

# Our losses inside the libraries they plug into, against those libraries' own.
test-peers: $(VENV)/.peers
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile -rs tests/integrations tests/data/pairs/test_hf_datasets.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site in site/, with every warning an error.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/loss.py

$(BIN)/pip:
	$(PYTHON) -c 'import sys; sys.exit("rince needs Python 3.10 to 3.13, this is " + sys.version) if not (3, 10) <= sys.version_info[:2] <= (3, 13) else 0'
	$(PYTHON) -m venv $(VENV)

# The stamps record what is installed, so that the second run installs nothing.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/pip
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/pip
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/pip
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt mkdocs-material 'mkdocstrings[python]'
	@touch $@

$(MINIMUM)/.installed: pyproject.toml constraints-min.txt
	$(PYTHON) -m venv $(MINIMUM)
	$(MINIMUM)/bin/pip install --quiet --disable-pip-version-check -c constraints-min.txt \
	  -e '.[train,graph,video,audit]' pytest hypothesis scipy
	@touch $@

# lightly, open_clip and PyGCL want torchvision or dgl, which replace a CPU build of torch or do not import beside it;
# their losses need neither.
$(VENV)/.peers: $(VENV)/.dev
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,peers]'
	-$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps lightly open_clip_torch PyGCL
	@touch $@

# Peers to measure against; lightly without its dependencies, which replace a CPU build of torch.
$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt pytorch-metric-learning kornia
	-$(BIN)/pip install --quiet --disable-pip-version-check --no-deps lightly
	@touch $@

clean:
	rm -rf $(VENV) $(MINIMUM) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
