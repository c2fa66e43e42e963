"""`python -m autodiff_cli` is the command `autodiff`."""

import sys

from autodiff_cli.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
