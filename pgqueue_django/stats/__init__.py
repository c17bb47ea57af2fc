"""The read side: what the admin, the HTTP API and health checks show."""
