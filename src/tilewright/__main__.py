"""python -m tilewright: the same as the console script."""

from tilewright.cli import main

main()
