"""What people type. One file for each command; what goes to the screen, to a program and to the shell is decided here.

This room may import every other one, and none imports it. It reads the clock, files and the environment, so that the
rooms beneath need not.
"""
