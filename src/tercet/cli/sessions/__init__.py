"""Commands for people who follow, steer and approve sessions."""
