/* planjson: the JSON half of planview.h. Keys are stable (docs/cli.md). */
#include "common/jsonx.h"
#include "launcher/planparts.h"
#include "launcher/planview.h"

static const char *const recomputes[PLAN_RECOMPUTES] = {"none", "selective", "full"};
static const char *const schedules[] = {"1f1b", "interleaved", "zero-bubble"};

static void set_int(json_t *o, const char *key, int64_t value)
{
    jsonx_set(o, key, json_integer(value));
}

static json_t *parameters_json(const struct params *p)
{
    json_t *o = json_object();
    set_int(o, "total", p->total);
    set_int(o, "active", p->active);
    set_int(o, "embedding", p->embedding);
    set_int(o, "positions", p->positions);
    set_int(o, "attention", p->attention);
    set_int(o, "ffn", p->ffn);
    set_int(o, "norms", p->norms);
    set_int(o, "router", p->router);
    set_int(o, "head", p->head);
    set_int(o, "attention_block", p->attention_block);
    set_int(o, "ffn_block", p->ffn_block);
    return o;
}

static json_t *model_json(const struct plan_request *r, const struct plan *p)
{
    const struct job_model *m = &r->spec->train.model;
    json_t *o = json_object();
    jsonx_set_str(o, "preset", m->preset[0] ? m->preset : NULL);
    jsonx_set_str(o, "arch", job_arch_name(m->arch));
    set_int(o, "layers", m->layers);
    set_int(o, "hidden", m->hidden);
    set_int(o, "heads", m->heads);
    set_int(o, "kv_heads", m->kv_heads);
    set_int(o, "ffn", m->ffn);
    set_int(o, "vocab", m->vocab);
    set_int(o, "context", m->context);
    set_int(o, "experts", m->experts);
    set_int(o, "top_k", m->top_k);
    jsonx_set(o, "parameters", parameters_json(&p->params));
    return o;
}

static json_t *mesh_json(const struct plan_request *r, const struct plan *p)
{
    const struct job_spec *s = r->spec;
    json_t *o = json_object();
    jsonx_set_str(o, "device", r->device->name);
    set_int(o, "ranks", s->ranks);
    set_int(o, "tp", s->tp);
    set_int(o, "pp", s->pp);
    set_int(o, "cp", s->cp);
    set_int(o, "dp", s->dp);
    set_int(o, "ep", s->ep);
    set_int(o, "zero", s->zero);
    jsonx_set_str(o, "schedule", schedules[s->pipeline]);
    set_int(o, "virtual_stages", s->virtual_stages);
    jsonx_set_str(o, "recompute", recomputes[s->train.recompute]);
    jsonx_set_str(o, "precision", job_precision_name(s->train.precision));
    set_int(o, "global", s->train.batch_global);
    set_int(o, "micro", s->train.batch_micro);
    jsonx_set_real(o, "micro_batches", p->micro_batches);
    return o;
}

static json_t *flops_json(const struct plan *p)
{
    json_t *o = json_object();
    jsonx_set_real(o, "per_token", p->flops.model);
    jsonx_set_real(o, "per_token_full_attention", p->flops.model_full);
    jsonx_set_real(o, "per_token_hardware", p->flops.hardware);
    jsonx_set_real(o, "six_n", p->flops.six_n);
    jsonx_set_real(o, "total", p->total_flops);
    return o;
}

static json_t *zero_json(const struct plan *p)
{
    json_t *stages = json_array();
    for (int zero = 0; zero < PLAN_ZERO_STAGES; zero++) {
        json_t *o = json_object();
        set_int(o, "stage", zero);
        for (int how = 0; how < PLAN_RECOMPUTES; how++)
            jsonx_set_real(o, recomputes[how], p->memory_total[zero][how]);
        json_array_append_new(stages, o);
    }
    return stages;
}

static json_t *memory_json(const struct plan *p)
{
    json_t *o = json_object();
    jsonx_set_real(o, "total", p->memory.total);
    jsonx_set(o, "device", p->memory_device > 0 ? json_real(p->memory_device) : json_null());
    jsonx_set(o, "fits", json_boolean(p->fits));
    for (size_t i = 0; i < planparts_memory_count; i++)
        jsonx_set_real(o, planparts_memory_name(i), planparts_memory(p, i));
    jsonx_set_real(o, "in_flight", p->memory.in_flight);
    jsonx_set_real(o, "images", p->memory.images);
    jsonx_set(o, "zero", zero_json(p));
    jsonx_set_real(o, "kv_cache_per_sequence", p->kv_cache);
    jsonx_set(o, "kv_sequences", p->memory_device > 0 ? json_real(p->kv_sequences) : json_null());
    return o;
}

static json_t *axes_json(const struct plan *p)
{
    json_t *axes = json_array();
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        json_t *o = json_object();
        jsonx_set_str(o, "axis", axis_name(axis));
        set_int(o, "size", p->traffic.axis[axis].size);
        jsonx_set_str(o, "level", job_domain_name(p->level[axis]));
        jsonx_set_real(o, "bytes", p->traffic.axis[axis].bytes);
        jsonx_set_real(o, "messages", p->traffic.axis[axis].messages);
        jsonx_set_real(o, "seconds", p->axis_seconds[axis]);
        json_array_append_new(axes, o);
    }
    return axes;
}

static json_t *traffic_json(const struct plan *p)
{
    json_t *o = json_object(), *levels = json_object();
    for (enum job_domain level = 0; level < DOMAIN_COUNT; level++)
        jsonx_set_real(levels, job_domain_name(level), p->level_bytes[level]);
    jsonx_set(o, "axes", axes_json(p));
    jsonx_set(o, "levels", levels);
    return o;
}

static json_t *step_json(const struct plan *p)
{
    json_t *o = json_object();
    jsonx_set_real(o, "seconds", p->step.total);
    for (size_t i = 0; i < planparts_step_count; i++)
        jsonx_set_real(o, planparts_step_key(i), planparts_step(p, i));
    jsonx_set_real(o, "bubble_share", p->step.bubble_share);
    return o;
}

static json_t *cost_json(const struct plan_request *r, const struct plan *p)
{
    json_t *o = json_object();
    jsonx_set_real(o, "tokens", p->tokens);
    jsonx_set_real(o, "steps", p->steps);
    jsonx_set_real(o, "tokens_per_step", p->step_tokens);
    jsonx_set_real(o, "tokens_per_s", p->tokens_per_s);
    jsonx_set_real(o, "tokens_per_s_device", p->tokens_per_s / (double)r->spec->ranks);
    jsonx_set_real(o, "mfu", p->mfu);
    jsonx_set_real(o, "mfu_full_attention", p->mfu_full);
    jsonx_set_real(o, "hfu", p->hfu);
    jsonx_set_real(o, "days", p->days);
    if (r->mfu > 0)
        jsonx_set_real(o, "days_at_mfu", p->days_at_mfu);
    jsonx_set_real(o, "watts", p->watts);
    jsonx_set_real(o, "kwh", p->kwh);
    if (r->spec->checkpoint.every == JOB_EVERY_AUTO) {
        set_int(o, "save_every", saves_every(&p->saves));
        jsonx_set_real(o, "save_s", p->saves.cost_s);
        jsonx_set_real(o, "mttf_s", p->saves.mttf_s);
    }
    return o;
}

static json_t *notes_json(const struct plannotes *notes)
{
    json_t *list = json_array();
    for (size_t i = 0; i < notes->count; i++)
        json_array_append_new(list, json_string(notes->text[i]));
    return list;
}

json_t *planview_json(const struct plan_request *request, const struct plan *plan,
                      const struct plannotes *notes)
{
    json_t *o = json_object();
    jsonx_set(o, "model", model_json(request, plan));
    jsonx_set(o, "mesh", mesh_json(request, plan));
    jsonx_set(o, "flops", flops_json(plan));
    jsonx_set(o, "memory", memory_json(plan));
    jsonx_set(o, "traffic", traffic_json(plan));
    jsonx_set(o, "step", step_json(plan));
    jsonx_set(o, "cost", cost_json(request, plan));
    jsonx_set(o, "notes", notes_json(notes));
    return o;
}

static json_t *result_json(const struct search_result *r)
{
    json_t *o = json_object();
    set_int(o, "tp", r->tp);
    set_int(o, "pp", r->pp);
    set_int(o, "cp", r->cp);
    set_int(o, "dp", r->dp);
    set_int(o, "ep", r->ep);
    set_int(o, "zero", r->zero);
    set_int(o, "micro", r->micro);
    jsonx_set_str(o, "schedule", schedules[r->pipeline]);
    set_int(o, "virtual_stages", r->virtual_stages);
    jsonx_set_str(o, "recompute", recomputes[r->recompute]);
    jsonx_set(o, "fits", json_boolean(r->plan.fits));
    jsonx_set_real(o, "memory", r->plan.memory.total);
    jsonx_set_real(o, "seconds", r->plan.step.total);
    jsonx_set_real(o, "tokens_per_s", r->plan.tokens_per_s);
    jsonx_set_real(o, "mfu", r->plan.mfu);
    jsonx_set_real(o, "days", r->plan.days);
    jsonx_set_str(o, "why", r->why);
    return o;
}

json_t *planview_search_json(const struct search_result *meshes, size_t count, size_t top,
                             const struct verdict *verdicts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count && i < top; i++) {
        json_t *o = result_json(&meshes[i]);
        if (verdicts) {
            jsonx_set_str(o, "verdict", verdict_kind_name(verdicts[i].kind));
            jsonx_set_str(o, "sentence", verdicts[i].sentence);
        }
        json_array_append_new(list, o);
    }
    return list;
}
