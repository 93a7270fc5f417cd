"""The `.prompty` asset, rule by rule of the specification."""
