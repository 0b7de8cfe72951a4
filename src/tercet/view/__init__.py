"""What a run's events, gates, steps and standing are called: the one vocabulary of terminal, report and log.

Everything here is plain data and plain text. Who prints it takes out what does not print, and chooses the colours.
"""
