/* Job files for tests that change them. */
#ifndef BELAY_TESTS_JOB_SAMPLES_H
#define BELAY_TESTS_JOB_SAMPLES_H

static const char *const job_samples[] = {
    "tests/fixtures/jobs/valid/design.yaml",
    "tests/fixtures/jobs/valid/mix.yaml",
    "tests/fixtures/jobs/valid/mesh.yaml",
    "tests/fixtures/jobs/valid/run.yaml",
    "tests/fixtures/jobs/valid/minimal-run.yaml",
    "tests/fixtures/jobs/valid/preset.yaml",
    "examples/quickstart.yaml",
    "examples/elastic.yaml",
};
#define JOB_SAMPLES (sizeof job_samples / sizeof job_samples[0])

#endif
