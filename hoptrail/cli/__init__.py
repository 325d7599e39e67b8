"""The command line."""

from hoptrail.cli.app import app, main

__all__ = ["app", "main"]
