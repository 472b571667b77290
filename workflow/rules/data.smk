# Prompt sets and base policies. They are named by their content, so studies share them.
rule data:
    output:
        "data/{data}/train.parquet",
        "data/{data}/heldout.parquet",
        "data/{data}/manifest.json",
    log:
        "logs/data/{data}.log",
    benchmark:
        "logs/benchmarks/data/{data}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        out=subpath(output[0], parent=True),
    message:
        "Prompts {wildcards.data}"
    shell:
        "python -m driftlaw data --data {wildcards.data}" " --out {params.out} 2> {log}"


rule base:
    input:
        lambda wildcards: f"data/{BASES[wildcards.base].data_id}/manifest.json",
    output:
        "models/{base}/manifest.json",
    log:
        "logs/base/{base}.log",
    benchmark:
        "logs/benchmarks/base/{base}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=60,
    params:
        data=subpath(input[0], parent=True),
        out=subpath(output[0], parent=True),
    message:
        "Base policy {wildcards.base}"
    shell:
        "python -m driftlaw base --base {wildcards.base}"
        " --data-dir {params.data} --out {params.out} 2> {log}"
