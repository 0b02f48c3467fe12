/* A spec that is written out and read again is the same spec, to the last byte of the struct: for the sample files, for seeded
 * random jobs, and for texts of every character that YAML finds difficult. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "job_samples.h"
#include "schema/job.h"
#include "schema/job_fields.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static void same_text(const char *what, const char *a, const char *b)
{
    if ((a == NULL) != (b == NULL) || (a && strcmp(a, b) != 0))
        fail_msg("%s came back different: %s and %s", what, a ? a : "nothing", b ? b : "nothing");
}

static void same_lists(const struct job_spec *a, const struct job_spec *b)
{
    assert_int_equal(a->argv == NULL, b->argv == NULL);
    for (size_t i = 0; a->argv && (a->argv[i] || b->argv[i]); i++) {
        same_text("command", a->argv[i], b->argv[i]);
        if (!a->argv[i])
            break;
    }
    assert_int_equal(a->n_stages, b->n_stages);
    for (size_t i = 0; i < a->n_stages; i++)
        assert_int_equal(a->stages[i], b->stages[i]);
    assert_int_equal(a->n_env, b->n_env);
    for (size_t i = 0; i < a->n_env; i++) {
        same_text("env", a->env[i].key, b->env[i].key);
        same_text("env", a->env[i].value, b->env[i].value);
    }
}

static void same_corpora(const struct job_train *a, const struct job_train *b)
{
    assert_int_equal(a->n_corpora, b->n_corpora);
    for (size_t i = 0; i < a->n_corpora; i++) {
        same_text("corpus", a->corpora[i].path, b->corpora[i].path);
        assert_true(a->corpora[i].weight == b->corpora[i].weight);
    }
}

/* Everything that is no pointer is compared as bytes, so that a field which is added later is compared too. */
static void same_spec(const struct job_spec *a, const struct job_spec *b)
{
    same_text("data.path", a->train.data_path, b->train.data_path);
    same_corpora(&a->train, &b->train);
    same_text("from", a->train.from, b->train.from);
    same_text("tokenizer", a->train.tokenizer, b->train.tokenizer);
    same_text("directory", a->checkpoint.directory, b->checkpoint.directory);
    same_text("upload.url", a->checkpoint.upload.url, b->checkpoint.upload.url);
    same_text("upload.endpoint", a->checkpoint.upload.endpoint, b->checkpoint.upload.endpoint);
    same_text("upload.region", a->checkpoint.upload.region, b->checkpoint.upload.region);
    same_text("url", a->notify_url, b->notify_url);
    same_lists(a, b);
    struct job_spec copy = *b;
    copy.train.data_path = a->train.data_path;
    copy.train.corpora = a->train.corpora;
    copy.train.from = a->train.from;
    copy.train.tokenizer = a->train.tokenizer;
    copy.checkpoint.directory = a->checkpoint.directory;
    copy.checkpoint.upload.url = a->checkpoint.upload.url;
    copy.checkpoint.upload.endpoint = a->checkpoint.upload.endpoint;
    copy.checkpoint.upload.region = a->checkpoint.upload.region;
    copy.notify_url = a->notify_url;
    copy.stages = a->stages;
    copy.argv = a->argv;
    copy.env = a->env;
    assert_memory_equal(a, &copy, sizeof copy);
}

static struct job_spec *parse(const char *yaml)
{
    static struct job_diagnostics d;
    struct job_spec *spec = NULL;
    if (job_spec_parse(yaml, strlen(yaml), "f.yaml", NULL, 0, &spec, &d) < 0)
        fail_msg("refused: %s\n%s", d.text[0], yaml);
    return spec;
}

/* Takes spec. */
static void must_come_back(struct job_spec *spec)
{
    char *yaml = job_spec_to_yaml(spec);
    struct job_spec *again = parse(yaml);
    char *yaml_again = job_spec_to_yaml(again);
    same_spec(spec, again);
    assert_string_equal(yaml, yaml_again);
    job_spec_free(spec);
    job_spec_free(again);
    free(yaml);
    free(yaml_again);
}

static void samples_come_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < JOB_SAMPLES; i++) {
        char *yaml = fs_read(job_samples[i], JOB_FILE_MAX, NULL, NULL);
        assert_non_null(yaml);
        must_come_back(parse(yaml));
        free(yaml);
    }
}

static struct job_spec *run_spec(const char *text)
{
    struct job_spec *spec =
        parse("name: x\nrun: {command: [a, b]}\nenv: {A: b}\ncheckpoint: {directory: c}\n");
    free(spec->argv[1]);
    free(spec->env[0].value);
    spec->argv[1] = str_dup(text);
    spec->env[0].value = str_dup(text);
    if (text[0]) {
        free(spec->checkpoint.directory);
        spec->checkpoint.directory = str_dup(text);
    }
    return spec;
}

static void difficult_texts_come_back(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "  two",
        "trailing  ",
        "\n",
        "\n\n",
        "a\nb",
        "a\n\n  b\n",
        "\t",
        "\r\n",
        "'",
        "\"",
        "\\",
        "\\n",
        "\\\"",
        "#",
        " #c",
        "a: b",
        "- a",
        "? a",
        "[a]",
        "{a}",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "`a",
        "|",
        ">",
        "yes",
        "on",
        "null",
        "~",
        "1",
        "1.5",
        "0x1",
        "<<",
        "---",
        "...",
        "\x01\x02\x1f\x7f",
        "\xc2\x80",
        "\xc2\x85",
        "\xc2\x9f",
        "\xc2\xa0",
        "\xe2\x80\xa8",
        "\xe2\x80\xa9",
        "\xef\xbb\xbf",
        "\xef\xbf\xbe",
        "\xef\xbf\xbf",
        "\xef\xbf\xbd",
        "\xed\x9f\xbf",
        "\xee\x80\x80",
        "\xf0\x9f\xa7\x97",
        "\xf4\x8f\xbf\xbf",
        "caf\xc3\xa9 \xe2\x98\x83",
        "a b  c   d",
        "x\\\ny",
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        must_come_back(run_spec(texts[i]));
}

static void every_character_comes_back(void **state)
{
    (void)state;
    char text[256];
    for (int c = 1; c < 128; c++)
        text[c - 1] = (char)c;
    text[127] = '\0';
    must_come_back(run_spec(text));
    char *line = mem_zero(5001, 1);
    for (int i = 0; i < 5000; i++)
        line[i] = i % 7 ? 'x' : ' ';
    struct job_spec *spec = parse("name: x\nrun: {command: [a, b]}\n");
    free(spec->argv[1]);
    spec->argv[1] = line; /* longer than any line that an emitter would fold */
    must_come_back(spec);
}

/* ---- random jobs ---- */

static uint64_t random_state;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static int64_t within(int64_t min, int64_t max)
{
    uint64_t span = (uint64_t)(max - min) + 1;
    uint64_t r = next_random();
    return min + (int64_t)(span ? (r >> (r & 31)) % span : r); /* small values often */
}

static double random_real(double low, double high)
{
    double unit = (double)(next_random() >> 11) / 9007199254740992.0;
    return low + unit * unit * unit * (high - low);
}

/* Fields that other fields bind are left as they are. */
static bool is_bound(const char *path)
{
    static const char *const bound[] = {"train.model",
                                        "train.batch",
                                        "train.steps",
                                        "train.precision",
                                        "train.recompute",
                                        "train.optimizer.min_lr",
                                        "train.optimizer.warmup",
                                        "train.optimizer.schedule",
                                        "train.optimizer.decay",
                                        "train.data.holdout",
                                        "train.eval.every",
                                        "train.optimizer.lr",
                                        "run.ranks",
                                        "checkpoint.upload",
                                        "checkpoint.keep_best",
                                        "parallel",
                                        "resources.device"};
    for (size_t i = 0; i < COUNT(bound); i++)
        if (strncmp(path, bound[i], strlen(bound[i])) == 0)
            return true;
    return false;
}

static void randomise(struct job_spec *spec, const struct job_field *f)
{
    void *at = (char *)spec + f->at;
    if (is_bound(f->path) ||
        strncmp(f->path, spec->is_train ? "run." : "train.", spec->is_train ? 4 : 6) == 0)
        return;
    if (f->type == FIELD_INT || f->type == FIELD_SIZE || f->type == FIELD_DURATION ||
        f->type == FIELD_RESUME || f->type == FIELD_SPARES || f->type == FIELD_EVERY) {
        int64_t low = f->type == FIELD_RESUME                             ? JOB_RESUME_NEVER
                      : f->type == FIELD_SPARES || f->type == FIELD_EVERY ? JOB_SPARES_AUTO
                                                                          : f->min;
        int64_t n = within(low, f->max);
        memcpy(at, &n, sizeof n);
    } else if (f->type == FIELD_REAL) {
        double value = random_real(f->low, f->high);
        memcpy(at, &value, sizeof value);
    } else if (f->type == FIELD_ENUM) {
        int index = (int)within(0, (int64_t)f->n_words - 1);
        memcpy(at, &index, sizeof index);
    } else if (f->type == FIELD_BOOL) {
        *(bool *)at = next_random() & 1;
    } else if (f->type == FIELD_BETAS) {
        double betas[2] = {random_real(0, 0.999), random_real(0, 0.9999)};
        memcpy(at, betas, sizeof betas);
    } else if (f->type == FIELD_EVENTS && spec->notify_url) {
        spec->notify_on = (unsigned)within(0, 7);
    }
}

static void random_jobs_come_back(void **state)
{
    (void)state;
    random_state = 20261129;
    for (int i = 0; i < 500; i++) {
        char *yaml = fs_read(job_samples[i % 4], JOB_FILE_MAX, NULL, NULL);
        assert_non_null(yaml);
        struct job_spec *spec = parse(yaml);
        for (size_t field = 0; field < job_fields_count; field++)
            randomise(spec, &job_fields[field]);
        must_come_back(spec);
        free(yaml);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_come_back),
        cmocka_unit_test(difficult_texts_come_back),
        cmocka_unit_test(every_character_comes_back),
        cmocka_unit_test(random_jobs_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
