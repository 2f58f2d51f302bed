"""``python -m fairmark``."""

from fairmark.cli import main

main()
