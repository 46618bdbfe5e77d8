# Tessera: `make` lists what there is.
PYTHON ?= python3
SIZE ?= 960x540
SPP ?= 64
SEED ?= 1
FAULTS ?= 300
FRAMES ?= 30

# The tests of whole farms in which the store matters.
ON_S3 := crashes.py faults.py frames.py zombie.py

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed

.PHONY: help install demo lint test stress chaos bench clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 12

install: $(INSTALLED) ## make .venv with tessera and everything its tests need
	@:

# Again only when what is to be installed has changed: the project itself is installed editable.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Tessera needs Python 3.11 or newer. Name one: make install PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

demo: install ## render a scene through a real Temporal server (SPP=64, SIZE=960x540)
	@mkdir -p out
	@$(BIN)/tessera render scenes/still_life.glb --size $(SIZE) --spp $(SPP) \
	    -o out/still_life.exr -o out/still_life.png
	@echo "Look at out/still_life.png. The linear picture with its layers is out/still_life.exr."
	@echo "Try: kill -9 it half-way, then make demo again; it goes on, and the bytes are the same."

lint: install ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

# Two at a time: many tests wait for a timeout or a server.
test: lint ## lint, then all tests; those of whole farms on both stores
	@$(BIN)/pytest -n 2 --dist loadfile
	@$(BIN)/pytest -n 2 --dist loadfile --store s3 $(addprefix tests/system/test_,$(ON_S3))

stress: install ## hand-overs and finalizers under kills, long form, on both stores (half an hour)
	@for store in local s3; do \
	    $(BIN)/python -m tests.stress.lease --store $$store --handovers 2000 && \
	    $(BIN)/python -m tests.stress.finalize --store $$store --finalizers 200 || exit 1; \
	done

chaos: install ## faults on running frames, then an audit of all (SEED="1 2 3" FAULTS=300 FRAMES=30)
	@$(BIN)/python -m tests.chaos --seed $(SEED) --faults $(FAULTS) --frames $(FRAMES)

bench: install ## the tracer beside Mitsuba and Embree (half an hour; Mitsuba's LLVM mode needs libllvm19)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@$(BIN)/python -m bench.tracer

clean: ## remove what builds and tests leave; frames (.tessera, out) stay
	@rm -rf build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
