"""`tercet demo`: one refund from a refused plan to its decision record, with real processes, a real kill and two databases.

`command` runs it, `worker` is the process that it starts and kills, `facts` reads the results back, `screens` shows them.
"""
