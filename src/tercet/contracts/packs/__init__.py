"""What packs declare besides their tools and decisions: scenarios, tunable parts, and the schema of all types."""
