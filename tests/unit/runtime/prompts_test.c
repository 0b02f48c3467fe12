/* Prompts from the command line and from files, as tokens. */
#include "tests/unit/scratch.h"

#include "runtime/prompts.h"

/* a b c, and two special tokens */
static const char own[] =
    "{\"added_tokens\":[{\"id\":256,\"content\":\"<|begin_of_text|>\",\"special\":true},"
    "{\"id\":257,\"content\":\"<|end_of_text|>\",\"special\":true}],"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{%s},\"merges\":[]}}";

static struct tokenizer *bytes, *special;

static int begin(void **state)
{
    struct err err = {""};
    if (scratch_make(state) != 0)
        return -1;
    bytes = tokenizer_open("bytes", &err);
    char *vocab = str_dup("");
    for (int32_t i = 0; i < 256; i++) { /* each byte under its name in such files */
        char *name = tokenizer_printable(bytes, i),
             *quoted = strchr("\"\\", name[0]) ? str_printf("\\%s", name) : str_dup(name);
        char *longer = str_printf("%s%s\"%s\":%d", vocab, i ? "," : "", quoted, i);
        free(vocab);
        free(name);
        free(quoted);
        vocab = longer;
    }
    char *path = scratch_path("tokenizer.json"), *text = str_printf(own, vocab);
    scratch_write(path, text, strlen(text));
    special = tokenizer_open(path, &err);
    if (!special)
        (void)fprintf(stderr, "%s\n", err.text);
    free(vocab);
    free(text);
    free(path);
    return bytes && special ? 0 : -1;
}

static int end(void **state)
{
    tokenizer_free(bytes);
    tokenizer_free(special);
    return scratch_remove(state);
}

static char *words(const struct prompts *p)
{
    char *out = str_dup("");
    for (size_t i = 0; i < p->n; i++)
        for (size_t j = 0; j < p->list[i].n; j++) {
            char *longer = str_printf("%s%s%d", out, j ? " " : i ? "; " : "", p->list[i].ids[j]);
            free(out);
            out = longer;
        }
    return out;
}

/* file: content of a file that is named */
static const struct {
    const char *name;
    struct prompts_request r;
    const char *file, *bytes, *special; /* what they come to, or a part of the sentence */
} rows[] = {
    {"a text", {.text = "abc"}, NULL, "97 98 99", "97 98 99"},
    {"a newline of a text stays", {.text = "a\n"}, NULL, "97 10", "97 10"},
    {"no text", {.text = ""}, NULL, "prompt 1 is empty", "257"},
    {"a file without its last newline", {.file = ""}, "a\nb\n", "97 10 98", "97 10 98"},
    {"only the last", {.file = ""}, "a\n\n", "97 10", "97 10"},
    {"a line each", {.file = "", .lines = true}, "a\nbc\n", "97; 98 99", "97; 98 99"},
    {"the last without a newline", {.file = "", .lines = true}, "a\nbc", "97; 98 99", "97; 98 99"},
    {"an empty line", {.file = "", .lines = true}, "a\n\nb", "prompt 2 is empty", "97; 257; 98"},
    {"an empty file", {.file = "", .lines = true}, "", "prompt 1 is empty", "257"},
    {"the begin", {.text = "ab", .begin = true}, NULL, "no begin of text", "256 97 98"},
    {"before each", {.file = "", .lines = true, .begin = true}, "a\nb", "no begin of text", "256 97; 256 98"},
    {"names are text", {.text = "<s>"}, NULL, "60 115 62", "60 115 62"},
    {"ids", {.ids = "3,0,999"}, NULL, "3 0 999", "3 0 999"},
    {"no ids", {.ids = ""}, NULL, "--prompt-ids: must be", "--prompt-ids: must be"},
    {"a word among ids", {.ids = "1,x"}, NULL, "not \"x\"", "not \"x\""},
    {"a comma too many", {.ids = "1,"}, NULL, "must be", "must be"},
    {"an id below 0", {.ids = "-1"}, NULL, "must be", "must be"},
    {"an id beyond 32 bits", {.ids = "4294967296"}, NULL, "must be", "must be"},
    {"a file that is not there", {.file = "/nowhere/prompt"}, NULL, "/nowhere/prompt", "/nowhere/prompt"},
};

static void check(size_t i, const struct tokenizer *t, const char *expected)
{
    struct prompts_request r = rows[i].r;
    struct prompts p;
    struct err err = {""};
    char *path = scratch_path("prompt");
    if (rows[i].file) {
        scratch_write(path, rows[i].file, strlen(rows[i].file));
        r.file = path;
    }
    bool works = strspn(expected, "0123456789; ") == strlen(expected);
    if ((prompts_load(&r, t, &p, &err) == 0) != works)
        fail_msg("%s, %s: \"%s\"", rows[i].name, tokenizer_name(t), err.text);
    char *found = works ? words(&p) : str_dup(err.text);
    if (works ? strcmp(found, expected) != 0 : !strstr(found, expected))
        fail_msg("%s: \"%s\", not \"%s\"", rows[i].name, found, expected);
    free(found);
    prompts_clear(&p);
    free(path);
}

static void prompts_become_tokens(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check(i, bytes, rows[i].bytes);
        check(i, special, rows[i].special);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(prompts_become_tokens)};
    return cmocka_run_group_tests(tests, begin, end);
}
