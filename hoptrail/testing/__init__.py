"""Equipment for tests of hoptrail, of your own tools, planners and models."""
