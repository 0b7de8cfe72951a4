"""Commands about the quality loop: how it converges, and how confidence is calibrated."""
