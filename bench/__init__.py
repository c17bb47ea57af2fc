"""Benchmarks that do not ship with the app; see METHODOLOGY.md."""
