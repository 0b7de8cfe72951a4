"""`tercet demo`: one refund from a refused plan to its decision record, with real processes, a real kill and two databases.

`story` plays it, `worker` is what it starts and kills, `books` reads back what is true, `narrator` tells it to people.
"""
