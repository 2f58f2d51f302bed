"""One evidence log, many tools: what each would have printed, and why they differ."""
