"""`make crash`."""

import sys

<<<<<<< HEAD
from . import damage
from .campaign import main

codes = [main()]
if "--only" not in sys.argv:
    codes.append(damage.main())
sys.exit(max(codes))
=======
from . import clock_jumps
from .campaign import main

code = main()
code = max(code, clock_jumps.main())
sys.exit(code)
>>>>>>> clocks
