"""`make crash`."""

import sys

from . import damage
from .campaign import main

codes = [main()]
if "--only" not in sys.argv:
    codes.append(damage.main())
sys.exit(max(codes))
