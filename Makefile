# Short names for dev.py, which needs nothing but Python and says what each command does.
PYTHON ?= python3
COMMANDS := demo test check fix wheel bench clean

.PHONY: $(COMMANDS)
$(COMMANDS):
	@$(PYTHON) dev.py $@
