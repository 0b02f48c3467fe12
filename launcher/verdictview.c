/* verdictview: see verdictview.h. */
#include "launcher/verdictview.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "launcher/command.h"
#include "launcher/format.h"
#include "launcher/table.h"
#include "launcher/text.h"

/* Facts stand in a column behind what they are. */
#define LABEL "  %-10s  "

static void print_need(const struct verdict *v)
{
    printf(LABEL "%lld rank%s", "needs", (long long)v->need_ranks, v->need_ranks == 1 ? "" : "s");
    if (v->need_group > 1)
        printf(", in groups of %lld that share a node", (long long)v->need_group);
    if (v->need_borders[0])
        printf("; %s", v->need_borders);
    printf("\n");
}

static void print_room(const struct verdict *v)
{
    printf(LABEL "%lld of %lld slots that it may use", "free", (long long)v->free_slots,
           (long long)v->all_slots);
    if (v->usable_slots < v->all_slots)
        printf(" (%lld are on nodes in service)", (long long)v->usable_slots);
    printf("\n" LABEL "%lld of its %lld rank%s now\n", "fits", (long long)v->fits_ranks,
           (long long)v->need_ranks, v->need_ranks == 1 ? "" : "s");
}

static const char *until(int64_t ms, char out[FORMAT_SIZE])
{
    char iso[CLOCK_UTC_SIZE];
    return ms ? format_time(clock_format_utc(ms, iso), out) : "without a time limit";
}

static void print_blockers(const struct verdict *v)
{
    char when[FORMAT_SIZE];
    for (size_t i = 0; i < v->n_blockers; i++) {
        const struct verdict_blocker *b = &v->blockers[i];
        char *name = text_clean(b->name), *user = text_clean(b->user);
        printf(LABEL "job %lld (%s, %s) holds %lld slot%s, %s%s\n", i == 0 ? "blocked by" : "",
               (long long)b->job, name, user, (long long)b->slots, b->slots == 1 ? "" : "s",
               b->until_ms ? "until " : "", until(b->until_ms, when));
        free(name);
        free(user);
    }
    if (v->starts_ms)
        printf(LABEL "by %s at the latest, as far as time limits tell\n", "starts",
               until(v->starts_ms, when));
}

static void print_ahead(const struct verdict *v)
{
    if (v->ahead == 0)
        return;
    char *name = text_clean(v->ahead_name);
    bool one = v->ahead == 1;
    printf(LABEL "%lld waiting job%s that go%s before it%s job %lld (%s)\n", "behind", (long long)v->ahead,
           one ? "" : "s", one ? "es" : "", one ? ":" : ", first", (long long)v->ahead_job, name);
    free(name);
}

static void print_changes(const struct verdict *v)
{
    for (size_t i = 0; i < v->n_changes; i++) {
        char *text = text_clean(v->changes[i]);
        printf(LABEL "%s\n", i == 0 ? "to change" : "", text);
        free(text);
    }
}

void verdictview_print(const struct verdict *v, const char *subject)
{
    char *sentence = text_clean(v->sentence);
    printf("%s %s.\n", subject, sentence);
    free(sentence);
    if (v->kind == VERDICT_RUNS)
        return;
    if (v->kind != VERDICT_OTHER) {
        print_need(v);
        print_room(v);
    }
    print_ahead(v);
    print_blockers(v);
    print_changes(v);
}

int verdictview_exit(const struct verdict *v)
{
    if (v->kind == VERDICT_NEVER)
        return CLI_NEVER;
    return v->kind == VERDICT_NOW || v->kind == VERDICT_RUNS ? CLI_DONE : CLI_WOULD_WAIT;
}
