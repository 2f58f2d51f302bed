"""How fast, how exact and how small the driver is, beside what others reach on the same machine."""
