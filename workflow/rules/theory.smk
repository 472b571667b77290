# The estimator laboratory: one job a section, then claims, figures and the page. It needs no run, and
# runs only where the study has a `lab`.
rule lab_section:
    output:
        f"{RESULTS}/lab/{{section}}/manifest.json",
    log:
        f"logs/{STUDY.name}/lab/{{section}}.log",
    benchmark:
        f"logs/benchmarks/{STUDY.name}/lab/{{section}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        out=subpath(output[0], ancestor=2),
        settings=lambda wildcards: digest(
            LAB[wildcards.section].model_dump(mode="json")
        ),
    message:
        "Laboratory: {wildcards.section}"
    shell:
        "python -m driftlaw lab --section {wildcards.section} --no-page"
        " --out {params.out} 2> {log}"


rule lab_page:
    input:
        expand(f"{RESULTS}/lab/{{section}}/manifest.json", section=LAB),
    output:
        page=f"{RESULTS}/lab/estimators.md",
        claims=report(
            f"{RESULTS}/lab/estimators/claims.json",
            caption="../report/claims.rst",
            category="Estimators",
        ),
        captions=f"{RESULTS}/lab/estimators/captions.json",
    log:
        f"logs/{STUDY.name}/lab/page.log",
    benchmark:
        f"logs/benchmarks/{STUDY.name}/lab/page.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        out=subpath(output[0], parent=True),
    message:
        "Laboratory: {output.page}"
    shell:
        "python -m driftlaw lab --out {params.out} 2> {log}"
