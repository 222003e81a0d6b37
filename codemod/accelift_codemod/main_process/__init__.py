"""What the main process alone does: what it writes, makes first, and leaves for the others."""

RULE = "GUARD"
HEADER = "if {accelerator}.is_main_process:"
