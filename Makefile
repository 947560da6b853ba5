# The two main commands are `make demo` and `make test`. Both set up .venv once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
MINIMUM := .venv-minimum

.PHONY: demo reproduce test test-package test-peers test-minimum test-python matrix docker fuzz fuzz-short lint format bench docs notebooks lock sbom audit-deps clean

demo: $(VENV)/.demo
	$(BIN)/rince demo

# `make reproduce` lists the experiments of the paper; `make reproduce NAME=tudataset ARGS="--seeds 3"` runs one.
reproduce: $(VENV)/.dev
	$(BIN)/python -m experiments $(NAME) $(ARGS)

# What takes minutes to run and is not the library itself has a command of its own: the wheel, pages, examples,
# notebooks, docstrings, benchmarks, experiments, and every configuration with its documented commands.
PACKAGE := tests/test_release.py tests/test_deploy.py tests/test_docs.py tests/test_examples.py tests/test_notebooks.py tests/test_docstrings.py \
	tests/test_benchmarks.py tests/test_configs_run.py tests/experiments

# What needs other libraries is left to `make test-peers`, which installs them.
test: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile $(addprefix --ignore=,$(PACKAGE) tests/integrations)

test-package: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadgroup $(PACKAGE)

# The oldest versions that pyproject.toml allows, in an environment of their own, and what depends on them most.
test-minimum: $(MINIMUM)/.installed
	OMP_NUM_THREADS=1 PYTHONPATH=src $(MINIMUM)/bin/python -m pytest -p no:cacheprovider tests/train/test_config.py \
	  tests/train/test_disturbed.py tests/train/test_untrusted_config.py tests/encoders tests/losses/test_objectives.py tests/_support

fuzz: $(VENV)/.dev
	$(BIN)/python tests/fuzz --seeds 10

fuzz-short: $(VENV)/.dev
	$(BIN)/python tests/fuzz --cases 160 --seed 1

# Our losses inside the libraries they plug into, against those libraries' own, and whatever else needs one of them.
test-peers: $(VENV)/.peers
	OMP_NUM_THREADS=1 TRITON_INTERPRET=1 $(BIN)/python -m pytest -n auto --dist loadfile -rs tests/integrations \
	  tests/data/pairs/test_hf_datasets.py tests/losses/test_triton_kernel.py tests/train/test_export.py tests/commands/test_output.py \
	  tests/test_docstrings.py 'tests/test_examples.py::test_example_runs_and_prints[sentence_transformers_noisy_pairs]' \
	  -k 'not test_docstrings or integrations or api_reference'

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

# Run the notebooks and keep what they show, after a change to them.
notebooks: $(VENV)/.dev
	cd notebooks && OMP_NUM_THREADS=1 ../$(BIN)/jupyter execute --inplace *.ipynb

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/loss.py

# The quick part of the tests with another Python: `make test-python PY=3.12` wants python3.12, or PYTHON_OTHER=path.
# Everything but torch comes from the lock. On Linux pip's torch of a public index brings 3 GB of CUDA packages.
PY           ?= 3.12
PYTHON_OTHER ?= python$(PY)
OTHER        := .venv-$(PY)
QUICK        := tests/losses tests/noise tests/audit tests/data tests/train/test_config.py tests/test_import.py

test-python: $(OTHER)/.dev
	OMP_NUM_THREADS=1 $(OTHER)/bin/python -m pytest -n auto --dist loadfile $(QUICK)

$(OTHER)/.dev: requirements.lock pyproject.toml
	test -x $(OTHER)/bin/pip || $(PYTHON_OTHER) -m venv $(OTHER)
	$(OTHER)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(OTHER)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(OTHER)/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Commands of rince with every interpreter as a service runs them: without root, a home, or a terminal. Wants python3.10,
# python3.12 and python3.13, which other users can run, too, if the caller is root.
matrix:
	$(MAKE) --no-print-directory PY=3.10 .venv-3.10/.dev
	$(MAKE) --no-print-directory PY=3.12 .venv-3.12/.dev
	$(MAKE) --no-print-directory PY=3.13 .venv-3.13/.dev
	$(MAKE) --no-print-directory $(MINIMUM)/.installed
	$(PYTHON) scripts/matrix.py .venv-3.10/bin/python .venv-3.12/bin/python .venv-3.13/bin/python $(MINIMUM)/bin/python

# The container, and in it the demo; without a Docker engine, the same steps in a plain shell. Where only the default
# package index can be reached: `make docker ARGS="--build-arg TORCH_ARGS="`.
docker:
	if docker info >/dev/null 2>&1; then docker build $(ARGS) -t rince . && docker run --rm rince demo; \
	else $(PYTHON) scripts/dockerfile_steps.py $(ARGS); fi

# The lock: every package of the tested set with its hashes, for Python 3.10 to 3.13. torch and what only its CUDA builds
# need are left out: which build is right depends on the machine, and builds of one version differ in their hashes.
# The tools live apart, so that they are not in the bill of materials themselves.
TOOLS     := .venv-tools
NO_HASHES := torch triton cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cupti nvidia-cuda-nvrtc \
	nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver nvidia-cusparse \
	nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx

lock: $(TOOLS)/.tools
	$(TOOLS)/bin/uv pip compile pyproject.toml --extra dev --extra docs -c constraints.txt --universal --python-version 3.10 \
		--generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' --quiet \
		$(addprefix --no-emit-package ,$(NO_HASHES)) -o requirements.lock

# What is installed in .venv, with licenses and who needs whom, as CycloneDX 1.6. rince itself is the component that the
# bill is of: the entry of its editable install would name a folder of this machine.
sbom: $(VENV)/.dev $(TOOLS)/.tools
	@mkdir -p dist
	$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible --short-PURLs \
		-o dist/.sbom.json $(VENV)
	$(TOOLS)/bin/python -c "import json; b = json.load(open('dist/.sbom.json')); \
		own = [c for c in b['components'] if c['name'] == 'rince']; \
		b['components'] = [c for c in b['components'] if c['name'] != 'rince']; \
		b['metadata']['component']['version'] = own[0]['version']; \
		json.dump(b, open('dist/sbom.cdx.json', 'w'), indent=1)"
	@rm dist/.sbom.json

# Known weaknesses of the locked versions and of torch. Asks the package index's advisory service, so it needs a network
# where that can be reached (a mirror of files alone will not do); --strict, so that an unanswered question is no "none".
audit-deps: $(TOOLS)/.tools
	$(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes -r requirements.lock
	grep '^torch==' constraints.txt > $(TOOLS)/torch.txt
	$(TOOLS)/bin/pip-audit --strict --disable-pip --no-deps -r $(TOOLS)/torch.txt

$(TOOLS)/.tools: constraints.txt
	test -x $(TOOLS)/bin/pip || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt uv cyclonedx-bom pip-audit
	@touch $@

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

# Triton, 290 MB, runs in its interpreter. lightly, open_clip and PyGCL want torchvision or dgl, which replace a CPU build
# of torch or do not import beside it; their losses need neither.
$(VENV)/.peers: $(VENV)/.dev
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,peers,triton]'
	-$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps lightly open_clip_torch PyGCL
	@touch $@

# Peers to measure against; lightly without its dependencies, which replace a CPU build of torch.
$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt pytorch-metric-learning kornia
	-$(BIN)/pip install --quiet --disable-pip-version-check --no-deps lightly
	@touch $@

clean:
	rm -rf $(VENV) .venv-* build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
