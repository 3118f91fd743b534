"""`python -m cosmic_tta` is the command `cosmic`."""

from cosmic_tta.cli.app import main

main()
