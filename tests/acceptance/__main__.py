"""`make crash`."""

import sys

from . import clock_jumps
from .campaign import main

code = main()
code = max(code, clock_jumps.main())
sys.exit(code)
