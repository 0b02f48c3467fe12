#include "tests/unit/scratch.h"

#include <fcntl.h>
#include <math.h>

#include "runtime/model/model.h"
#include "runtime/tell.h"

#define COLUMN_MFU 7 /* of metrics.csv, from 0 */
#define COLUMN_HFU 11

/* Where stdout goes until unmute(). */
static int mute(const char *path)
{
    (void)fflush(stdout);
    int kept = dup(STDOUT_FILENO), fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(kept >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
    close(fd);
    return kept;
}

static void unmute(int kept)
{
    (void)fflush(stdout);
    assert_true(dup2(kept, STDOUT_FILENO) >= 0);
    close(kept);
}

/* A number of row `row` (from 1) of a text of lines with commas. */
static double field(const char *text, int row, int column)
{
    for (; row > 0; row--)
        text = strchr(text, '\n') + 1;
    for (; column > 0; column--)
        text = strchr(text, ',') + 1;
    return strtod(text, NULL);
}

/* A peak that was measured while others had the cores is not the end of it. */
static void a_step_beyond_the_peak_raises_it(void **state)
{
    (void)state;
    static const struct {
        double seconds, hfu;
    } rows[] = {{2, 0.5}, {0.5, 1}, {1, 0.5}, {0.25, 1}, {1, 0.25}}; /* the peak is that of a step of 1 s */
    struct err err;
    struct job_spec spec = {
        .train = {
            .model =
                {.layers = 1, .hidden = 8, .heads = 2, .kv_heads = 2, .ffn = 32, .vocab = 16, .context = 4},
            .recompute = RECOMPUTE_FULL,
            .batch_global = 2,
            .steps = 5}};
    char *path = scratch_path("metrics.csv"), *out = scratch_path("out");
    struct run run = {.spec = &spec,
                      .size = 1,
                      .mesh.size = {1, 1, 1, 1, 1},
                      .notify = notify_open(NULL, 0),
                      .metrics = metrics_open(path, 0, &err)};
    assert_non_null(run.metrics);
    run.peak =
        run_step_tokens(&run) * model_hardware_flops_per_token(&spec.train.model, 4, spec.train.recompute);
    int kept = mute(out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct step step = {.seconds = rows[i].seconds};
        run.state.step++;
        tell_step(&run, &step, NAN);
    }
    unmute(kept);
    metrics_close(run.metrics);
    notify_close(run.notify);
    char *text = scratch_read(path), *said = scratch_read(out);
    for (int i = 0; i < 5; i++) {
        assert_float_equal(field(text, i + 1, COLUMN_HFU), rows[i].hfu, 1e-6);
        assert_true(field(text, i + 1, COLUMN_MFU) < rows[i].hfu);
    }
    const char *first = strstr(said, "more than the");
    assert_non_null(first);
    assert_null(strstr(first + 1, "more than the"));
    free(said);
    free(text);
    free(out);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_beyond_the_peak_raises_it)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
