"""`python -m perdure.cli`, which is what `perdure` runs."""

from .entry import main

if __name__ == "__main__":
    main()
