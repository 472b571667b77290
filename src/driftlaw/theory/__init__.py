"""The laboratory: every estimator against exact gradients, on policies that can be enumerated.

policies, problems, exact     responses, rewards, J and its gradient, drift of pi from mu
estimators, groups, moments   the product's objectives as estimators, over all groups or a sample
targets, measures, slopes     what they are compared with, what is reported, exponents
experiments_*, reference      one experiment a file: settings in (`driftlaw.config.lab`), tables out
"""
