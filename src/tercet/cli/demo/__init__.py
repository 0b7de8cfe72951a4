"""`tercet demo`: one refund from a refused plan to its decision record, with real processes, a real kill and two databases.

`recorded` plays it, `worker` is what it starts and kills, `reader` reads back what is true, `demo_screen` tells it to people.
"""
