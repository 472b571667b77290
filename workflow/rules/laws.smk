# The run table, and the laws fitted to it.
rule collect:
    input:
        expand(f"{RESULTS}/runs/{{run}}/manifest.json", run=RUNS),
    output:
        f"{RESULTS}/tables/runs.csv",
        f"{RESULTS}/tables/curves.parquet",
        f"{RESULTS}/tables/updates.parquet",
    log:
        f"logs/{STUDY.name}/collect.log",
    benchmark:
        f"logs/benchmarks/{STUDY.name}/collect.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        out=subpath(output[0], parent=True),
    message:
        "Tables of {STUDY.name}"
    shell:
        "python -m driftlaw collect --out {params.out} 2> {log}"


rule fit:
    input:
        f"{RESULTS}/tables/runs.csv",
    output:
        f"{RESULTS}/laws/fit.json",
    log:
        f"logs/{STUDY.name}/fit.log",
    benchmark:
        f"logs/benchmarks/{STUDY.name}/fit.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        out=subpath(output[0], parent=True),
    message:
        "Laws of {STUDY.name}"
    shell:
        "python -m driftlaw fit {input} --out {params.out} 2> {log}"
