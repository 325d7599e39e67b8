"""From a question to a plan, and from an answered plan to an answer."""
