# All figures in one job: importing the plotting libraries costs more than drawing.
rule figures:
    input:
        f"{RESULTS}/tables/runs.csv",
        f"{RESULTS}/tables/curves.parquet",
        f"{RESULTS}/tables/updates.parquet",
    output:
        expand(f"{RESULTS}/figures/{{name}}.svg", name=FIGURES),
        f"{RESULTS}/figures/captions.json",
        curves=report(
            f"{RESULTS}/figures/curves.png",
            caption="../report/curves.rst",
            category="Training",
        ),
        score_by_delay=report(
            f"{RESULTS}/figures/score_by_delay.png",
            caption="../report/score_by_delay.rst",
            category="Staleness",
        ),
        status_map=report(
            f"{RESULTS}/figures/status_map.png",
            caption="../report/status_map.rst",
            category="Staleness",
        ),
        ratios=report(
            f"{RESULTS}/figures/ratios.png",
            caption="../report/ratios.rst",
            category="Estimators",
        ),
    log:
        f"logs/{STUDY.name}/figures.log",
    benchmark:
        f"logs/benchmarks/{STUDY.name}/figures.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        tables=subpath(input[0], parent=True),
        out=subpath(output[0], parent=True),
        study=digest(config),
    message:
        "Figures of {STUDY.name}"
    shell:
        "python -m driftlaw figures --tables {params.tables}"
        " --out {params.out} 2> {log}"
