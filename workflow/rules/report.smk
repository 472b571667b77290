# One HTML file that opens from disk. (Snakemake's own `--report` works too.)
rule report:
    input:
        f"{RESULTS}/tables/runs.csv",
        f"{RESULTS}/figures/captions.json",
        laws=f"{RESULTS}/laws/fit.json",
        lab=[f"{RESULTS}/lab/estimators/claims.json"] if LAB else [],
        figures=expand(f"{RESULTS}/figures/{{name}}.png", name=FIGURES),
    output:
        report(
            f"{RESULTS}/report.html", caption="../report/report.rst", category="Report"
        ),
    log:
        f"logs/{STUDY.name}/report.log",
    benchmark:
        f"logs/benchmarks/{STUDY.name}/report.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        tables=subpath(input[0], parent=True),
        figures=subpath(input[1], parent=True),
        lab=lambda wildcards, input: (
            f"--lab {Path(input.lab[0]).parent}" if LAB else ""
        ),
        study=digest(config),
    message:
        "Report of {STUDY.name}: {output}"
    shell:
        "python -m driftlaw report --tables {params.tables}"
        " --laws {input.laws} --figures {params.figures} {params.lab} --out {output} 2> {log}"
