"""Laws of collapse: when a run collapsed, the stability boundary, and the collapse time.

Import the module you need (`driftlaw.laws.collapse`, `driftlaw.laws.fit`, ...): this file imports
nothing, so the training loop can read the collapse rule without paying for pandas, scipy or
lifelines.
"""
