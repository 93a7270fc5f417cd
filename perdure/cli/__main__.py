"""`python -m perdure.cli`, which is what `perdure` runs."""

from __future__ import annotations

from . import main

if __name__ == "__main__":
    main()
