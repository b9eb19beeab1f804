"""`python -m biasgp` is the command `biasgp`."""

from biasgp.cli import main

main()
