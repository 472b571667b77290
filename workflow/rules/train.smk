# One run, one job. The run's folder (checkpoints, tables, model) is not declared as output, since
# Snakemake deletes declared outputs before a job: only the manifest, which is written last, is. So a
# job that starts again resumes. A run that fails leaves a manifest that says so, and the study goes on.
rule train:
    input:
        data=lambda wildcards: f"data/{RUNS[wildcards.run].data_id}/manifest.json",
        base=lambda wildcards: f"models/{RUNS[wildcards.run].base_id}/manifest.json",
    output:
        f"{RESULTS}/runs/{{run}}/manifest.json",
    log:
        f"logs/{STUDY.name}/train/{{run}}.log",
    benchmark:
        f"logs/benchmarks/{STUDY.name}/train/{{run}}.tsv"
    conda:
        ENVIRONMENT
    threads: lambda wildcards: RUNS[wildcards.run].settings.learner.threads
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 120 * attempt,
    params:
        data=subpath(input.data, parent=True),
        base=subpath(input.base, parent=True),
        out=subpath(output[0], parent=True),
    message:
        "Run {wildcards.run}"
    shell:
        "python -m driftlaw train --run {wildcards.run}"
        " --data-dir {params.data} --base-dir {params.base}"
        " --out {params.out} --attempts 3 --keep-going 2> {log}"
