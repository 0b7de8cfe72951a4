"""Commands that plan, review and run a request."""
