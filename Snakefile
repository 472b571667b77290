# `snakemake` works from the root of the repository; the workflow is in workflow/.
include: "workflow/Snakefile"


# An include does not bring the default target with it.
workflow.default_target = "all"
