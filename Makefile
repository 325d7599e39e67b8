# Thin names for dev.py, which needs nothing but Python.
PYTHON ?= python3

.PHONY: demo test check wheel bench
demo test check wheel bench:
	@$(PYTHON) dev.py $@
