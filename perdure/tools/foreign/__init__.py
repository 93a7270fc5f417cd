"""`kind: activity` and `kind: workflow`: what a company already has on Temporal, in any language, as tools."""
