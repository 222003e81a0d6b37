"""How scripts spell devices, and what they do besides when they choose one."""
