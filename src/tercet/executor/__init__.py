"""Acts: the gateway through which every tool call goes, its retries and breakers. The only room that calls tools."""
