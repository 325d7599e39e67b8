"""Extractors: what finds entities and relations in passages."""
