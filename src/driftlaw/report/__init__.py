"""The HTML report of a study: `html` writes it, `results` and `fits` compute what it says."""
