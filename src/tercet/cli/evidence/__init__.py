"""Commands that add evidence, freeze it in snapshots and show it."""
