"""`python -m biasgp` is the command `biasgp`."""

from biasgp.cli import main

if __name__ == "__main__":
    main()
