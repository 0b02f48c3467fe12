/* svg: sizes first, then ink. Nodes are sorted into topology order; runs of one pod, rack and NVLink domain become boxes. The square is the
 * largest at which all devices fit a page; a rack stacks its nodes, a pod lets its racks flow in lines, pods stand below each other. */
#include "launcher/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "schema/cluster.h"
#include "schema/utf8.h"

#define PAGE_WIDTH  1600
#define PAGE_AREA   1900000 /* at which squares are made smaller */
#define MARGIN      12
#define PAD         4 /* around what a rack or pod holds */
#define DOMAIN_GAP  3 /* between the frames of two NVLink domains */
#define POD_TITLE   16
#define LABEL_MAX   20 /* characters of a node's name that are drawn */
#define STAGES_MAX  16 /* in the legend */
#define NONE        SIZE_MAX
#define GLYPH_WIDTH 0.62 /* of a sans-serif letter, in font sizes; rather too wide */

struct box {
    size_t first, n; /* of the parts within: nodes of a rack, racks of a pod */
    int x, y, w, h;
};

struct picture {
    FILE *out;
    const struct svg_node *nodes;
    size_t n_nodes;
    const struct svg_rank *placed;
    size_t n_placed;
    enum svg_colour by;
    const char *title;
    size_t *order;      /* of the nodes in topology order */
    size_t *first_slot; /* of each node in at[] */
    size_t *at;         /* rank that a slot holds, as an index of placed, or NONE */
    struct box *racks, *pods;
    size_t n_racks, n_pods, racks_room, pods_room;
    int64_t tp, pp, cp, dp; /* sizes of the mesh */
    int square, gap, label; /* pixels; label = width of node names, 0 = not drawn */
    int width, height;
};

int svg_colour_parse(const char *word, enum svg_colour *out)
{
    static const char *const words[] = {[SVG_TP] = "tp", [SVG_PP] = "pp", [SVG_DP] = "dp"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0) {
            *out = (enum svg_colour)i;
            return 0;
        }
    return -1;
}

/* ---- order ---- */

static const char *domain_of(const struct svg_node *node)
{
    return node->nvlink ? node->nvlink : "";
}

static int compare_nodes(const void *pa, const void *pb, void *nodes)
{
    const struct svg_node *a = (const struct svg_node *)nodes + *(const size_t *)pa;
    const struct svg_node *b = (const struct svg_node *)nodes + *(const size_t *)pb;
    int c = cluster_name_compare(a->pod, b->pod);
    if (c == 0)
        c = cluster_name_compare(a->rack, b->rack);
    if (c == 0)
        c = cluster_name_compare(domain_of(a), domain_of(b));
    return c ? c : cluster_name_compare(a->name, b->name);
}

static void sort_nodes(struct picture *p)
{
    p->order = mem_zero(p->n_nodes, sizeof *p->order);
    for (size_t i = 0; i < p->n_nodes; i++)
        p->order[i] = i;
    qsort_r(p->order, p->n_nodes, sizeof *p->order, compare_nodes, (void *)(uintptr_t)p->nodes);
}

static const struct svg_node *nth(const struct picture *p, size_t i)
{
    return &p->nodes[p->order[i]];
}

/* ---- who is where ---- */

static void measure_mesh(struct picture *p, const struct svg_rank *r)
{
    p->tp = r->tp >= p->tp ? r->tp + 1 : p->tp;
    p->pp = r->pp >= p->pp ? r->pp + 1 : p->pp;
    p->cp = r->cp >= p->cp ? r->cp + 1 : p->cp;
    p->dp = r->dp >= p->dp ? r->dp + 1 : p->dp;
}

static void seat_ranks(struct picture *p)
{
    size_t slots = 0;
    p->first_slot = mem_zero(p->n_nodes, sizeof *p->first_slot);
    for (size_t i = 0; i < p->n_nodes; slots += (size_t)p->nodes[i++].slots)
        p->first_slot[i] = slots;
    p->at = mem_zero(slots, sizeof *p->at);
    for (size_t i = 0; i < slots; i++)
        p->at[i] = NONE;
    p->tp = p->pp = p->cp = p->dp = 1;
    for (size_t i = 0; i < p->n_placed; i++) {
        const struct svg_rank *r = &p->placed[i];
        if (r->node >= p->n_nodes || r->slot < 0 || r->slot >= p->nodes[r->node].slots)
            continue;
        p->at[p->first_slot[r->node] + (size_t)r->slot] = i;
        measure_mesh(p, r);
    }
}

/* ---- sizes ---- */

static int64_t columns(const struct svg_node *node)
{
    return node->slots > 64 ? 32 : node->slots < 8 ? node->slots : 8;
}

static int cell(const struct picture *p)
{
    return p->square + p->gap;
}

static int node_height(const struct picture *p, const struct svg_node *node)
{
    int64_t rows = node->slots > 0 ? (node->slots + columns(node) - 1) / columns(node) : 1;
    return (int)rows * cell(p) + p->gap;
}

static int node_width(const struct picture *p, const struct svg_node *node)
{
    return p->label + (int)columns(node) * cell(p) + p->gap;
}

static int rack_title(const struct picture *p)
{
    return p->square >= 6 ? p->square + 4 : 0;
}

/* Does a domain begin, or end, with node i of the topology order? */
static bool domain_begins(const struct picture *p, const struct box *rack, size_t i)
{
    const char *domain = domain_of(nth(p, i));
    return domain[0] && (i == rack->first || strcmp(domain_of(nth(p, i - 1)), domain) != 0);
}

static bool domain_ends(const struct picture *p, const struct box *rack, size_t i)
{
    const char *domain = domain_of(nth(p, i));
    return domain[0] && (i + 1 == rack->first + rack->n || strcmp(domain_of(nth(p, i + 1)), domain) != 0);
}

static void choose_scale(struct picture *p)
{
    static const int squares[] = {18, 14, 10, 8, 6, 5, 4, 3};
    size_t devices = 0, longest = 0;
    for (size_t i = 0; i < p->n_nodes; i++) {
        size_t len = strlen(p->nodes[i].name);
        longest = len > longest ? len : longest;
        devices += (size_t)p->nodes[i].slots;
    }
    for (size_t i = 0; i < sizeof squares / sizeof *squares; i++) {
        p->square = squares[i];
        p->gap = p->square >= 8 ? 2 : 1;
        if (2.2 * (double)devices * cell(p) * cell(p) <= PAGE_AREA)
            break;
    }
    longest = longest > LABEL_MAX ? LABEL_MAX : longest;
    p->label = p->square >= 10 ? (int)((double)longest * p->square * 0.8 * GLYPH_WIDTH) + 6 : 0;
}

static struct box *new_box(struct box **boxes, size_t *n, size_t *room, size_t first)
{
    *boxes = mem_one_more(*boxes, *n, room, sizeof **boxes);
    struct box *box = &(*boxes)[(*n)++];
    *box = (struct box){.first = first};
    return box;
}

static void find_boxes(struct picture *p)
{
    for (size_t i = 0; i < p->n_nodes; i++) {
        const struct svg_node *a = i ? nth(p, i - 1) : NULL, *b = nth(p, i);
        bool pod = !a || strcmp(a->pod, b->pod) != 0;
        if (pod)
            (void)new_box(&p->pods, &p->n_pods, &p->pods_room, p->n_racks);
        if (pod || strcmp(a->rack, b->rack) != 0) {
            (void)new_box(&p->racks, &p->n_racks, &p->racks_room, i);
            p->pods[p->n_pods - 1].n++;
        }
        p->racks[p->n_racks - 1].n++;
    }
}

static int text_width(const char *text, double size)
{
    return (int)((double)strlen(text) * size * GLYPH_WIDTH);
}

static void size_rack(const struct picture *p, struct box *rack)
{
    rack->h = rack_title(p) + 2 * PAD;
    for (size_t i = rack->first; i < rack->first + rack->n; i++) {
        int w = node_width(p, nth(p, i)) + 2 * PAD;
        rack->w = w > rack->w ? w : rack->w;
        rack->h += node_height(p, nth(p, i)) + p->gap;
        rack->h += (domain_begins(p, rack, i) ? PAD : 0) + (domain_ends(p, rack, i) ? PAD + DOMAIN_GAP : 0);
    }
    rack->w += 2 * PAD; /* room for the frame of a domain */
    int title = rack_title(p) ? text_width(nth(p, rack->first)->rack, p->square * 0.8) + 2 * PAD : 0;
    rack->w = title > rack->w ? title : rack->w;
}

/* Lets the racks of a pod flow in lines. */
static void place_pod(struct picture *p, struct box *pod, int y)
{
    int x = MARGIN + PAD, line = 0, below = y + POD_TITLE + PAD;
    pod->x = MARGIN;
    pod->y = y;
    pod->w = text_width(nth(p, p->racks[pod->first].first)->pod, 12) + 2 * PAD;
    for (size_t i = pod->first; i < pod->first + pod->n; i++) {
        struct box *rack = &p->racks[i];
        if (x + rack->w + PAD > PAGE_WIDTH && x > MARGIN + PAD) {
            x = MARGIN + PAD;
            below += line + PAD;
            line = 0;
        }
        rack->x = x;
        rack->y = below;
        x += rack->w + PAD;
        line = rack->h > line ? rack->h : line;
        pod->w = x - pod->x > pod->w ? x - pod->x : pod->w;
    }
    pod->h = below + line + PAD - y;
}

static void lay_out(struct picture *p)
{
    choose_scale(p);
    find_boxes(p);
    int y = 2 * MARGIN + 20;
    p->width = 560; /* for the legend */
    for (size_t i = 0; i < p->n_racks; i++)
        size_rack(p, &p->racks[i]);
    for (size_t i = 0; i < p->n_pods; i++) {
        place_pod(p, &p->pods[i], y);
        y += p->pods[i].h + 8;
        int right = p->pods[i].x + p->pods[i].w + MARGIN;
        p->width = right > p->width ? right : p->width;
    }
    int title = text_width(p->title, 16) + 2 * MARGIN;
    p->width = title > p->width && title <= PAGE_WIDTH ? title : p->width;
    p->height = y + 64;
}

/* ---- text ---- */

/* Escapes what XML does not allow; what is not UTF-8, and control characters, become '?'. */
static void put_text(const struct picture *p, const char *text)
{
    char *copy = str_dup(text);
    utf8_clean(copy);
    for (const char *c = copy; *c; c++) {
        const char *entity = *c == '&'    ? "&amp;"
                             : *c == '<'  ? "&lt;"
                             : *c == '>'  ? "&gt;"
                             : *c == '"'  ? "&quot;"
                             : *c == '\'' ? "&#39;"
                                          : NULL;
        if (entity)
            (void)fputs(entity, p->out);
        else
            (void)fputc((unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c, p->out);
    }
    free(copy);
}

static void label(const struct picture *p, int x, int y, double size, const char *text)
{
    (void)fprintf(p->out, "<text x=\"%d\" y=\"%d\" font-size=\"%.1f\">", x, y, size);
    put_text(p, text);
    (void)fputs("</text>\n", p->out);
}

/* At most LABEL_MAX bytes of a name, cut between characters. */
static void short_label(const struct picture *p, int x, int y, double size, const char *name)
{
    char cut[LABEL_MAX + 4];
    size_t n = strlen(name);
    if (n > LABEL_MAX) {
        for (n = LABEL_MAX - 1; n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80;)
            n--;
        (void)snprintf(cut, sizeof cut, "%.*s…", (int)n, name);
    }
    label(p, x, y, size, n < strlen(name) ? cut : name);
}

/* ---- colours ---- */

struct rgb {
    int r, g, b;
};

static int channel(double hue, double saturation, double lightness, double offset)
{
    double k = fmod(offset + hue * 12, 12), a = saturation * fmin(lightness, 1 - lightness);
    return (int)lround(255 * (lightness - a * fmax(-1, fmin(fmin(k - 3, 9 - k), 1))));
}

/* Hue, saturation and lightness of 0..1 as red, green, blue (CSS Color Module Level 4, section 7.1). */
static struct rgb colour(double hue, double saturation, double lightness)
{
    return (struct rgb){channel(hue, saturation, lightness, 0), channel(hue, saturation, lightness, 8),
                        channel(hue, saturation, lightness, 4)};
}

/* Neighbours far apart on the circle however many there are: multiples of the golden angle; few take even steps. */
static double hue_of(int64_t index, int64_t count)
{
    if (count <= 16)
        return (double)index / (double)(count > 0 ? count : 1);
    return fmod((double)index * 0.61803398875, 1);
}

/* Light enough for a hue to be seen, dark enough beside white. */
static double lightness_of(int64_t index, int64_t count)
{
    return count > 1 ? 0.36 + 0.40 * (double)(index % 8) / (double)(count > 8 ? 7 : count - 1) : 0.52;
}

static struct rgb rank_colour(const struct picture *p, const struct svg_rank *r)
{
    int64_t group = (r->dp * p->pp + r->pp) * p->cp + r->cp; /* of TP */
    if (p->by == SVG_TP)
        return colour(hue_of(group, p->dp * p->pp * p->cp), 0.65, lightness_of(group, p->dp * p->pp * p->cp));
    if (p->by == SVG_PP)
        return colour(hue_of(r->pp, p->pp), 0.65, lightness_of(r->dp, p->dp));
    return colour(hue_of(r->dp, p->dp), 0.65, lightness_of(r->pp, p->pp));
}

/* ---- ink ---- */

static void rect(const struct picture *p, const struct box *box, const char *class)
{
    (void)fprintf(p->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"%s\"/>\n", box->x,
                  box->y, box->w, box->h, class);
}

static void draw_rank(const struct picture *p, const struct svg_node *node, const struct svg_rank *r, int x,
                      int y)
{
    struct rgb c = rank_colour(p, r);
    (void)fprintf(p->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#%02x%02x%02x\"><title>",
                  x, y, p->square, p->square, c.r, c.g, c.b);
    put_text(p, node->name);
    (void)fprintf(p->out,
                  " slot %" PRId64 ": rank %" PRId64 " (tp %" PRId64 ", pp %" PRId64 ", cp %" PRId64
                  ", dp %" PRId64 ")</title></rect>\n",
                  r->slot, r->rank, r->tp, r->pp, r->cp, r->dp);
}

static void draw_empty(const struct picture *p, const char *class, int x, int y)
{
    (void)fprintf(p->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"%s\"/>\n", x, y,
                  p->square, p->square, class);
}

static void draw_slots(const struct picture *p, const struct svg_node *node, int x, int y)
{
    const size_t *at = p->at + p->first_slot[node - p->nodes];
    int64_t taken = node->taken;
    for (int64_t s = 0; s < node->slots; s++) {
        int sx = x + (int)(s % columns(node)) * cell(p), sy = y + (int)(s / columns(node)) * cell(p);
        const struct svg_rank *r = at[s] == NONE ? NULL : &p->placed[at[s]];
        if (r && r->rank >= 0)
            draw_rank(p, node, r, sx, sy);
        else if (r)
            draw_empty(p, "spare", sx, sy);
        else if (taken > 0)
            draw_empty(p, "taken", sx, sy);
        else
            draw_empty(p, "free", sx, sy);
        taken -= !r && taken > 0;
    }
}

static void draw_node(const struct picture *p, const struct svg_node *node, int x, int y)
{
    (void)fprintf(p->out, "<g><title>");
    put_text(p, node->name);
    (void)fprintf(p->out, ": %" PRId64 " slots, %" PRId64 " in use by others%s</title>\n", node->slots,
                  node->taken, node->usable ? "" : ", drained or down");
    if (p->label)
        short_label(p, x, y + p->gap + p->square - 2, p->square * 0.8, node->name);
    draw_slots(p, node, x + p->label + p->gap, y + p->gap);
    if (!node->usable) {
        struct box box = {
            .x = x + p->label, .y = y, .w = node_width(p, node) - p->label, .h = node_height(p, node)};
        rect(p, &box, "drained");
    }
    (void)fputs("</g>\n", p->out);
}

/* The frame of the domain that begins with node i. Its height is that of its nodes. */
static void draw_domain(const struct picture *p, const struct box *rack, size_t i, int y)
{
    struct box box = {.x = rack->x + PAD, .y = y, .w = rack->w - 2 * PAD, .h = 2 * PAD};
    for (size_t k = i;; k++) {
        box.h += node_height(p, nth(p, k)) + p->gap;
        if (domain_ends(p, rack, k))
            break;
    }
    rect(p, &box, "nvlink");
}

static void draw_rack(const struct picture *p, const struct box *rack)
{
    int y = rack->y + rack_title(p) + PAD;
    rect(p, rack, "rack");
    if (rack_title(p))
        label(p, rack->x + PAD, rack->y + p->square, p->square * 0.8, nth(p, rack->first)->rack);
    for (size_t i = rack->first; i < rack->first + rack->n; i++) {
        if (domain_begins(p, rack, i)) {
            draw_domain(p, rack, i, y);
            y += PAD;
        }
        draw_node(p, nth(p, i), rack->x + 2 * PAD, y);
        y += node_height(p, nth(p, i)) + p->gap;
        y += domain_ends(p, rack, i) ? PAD + DOMAIN_GAP : 0;
    }
}

static void draw_pod(const struct picture *p, const struct box *pod)
{
    rect(p, pod, "pod");
    label(p, pod->x + PAD, pod->y + 13, 12, nth(p, p->racks[pod->first].first)->pod);
    for (size_t i = pod->first; i < pod->first + pod->n; i++)
        draw_rack(p, &p->racks[i]);
}

/* ---- legend ---- */

static int legend_class(const struct picture *p, int x, int y, const char *class, const char *text)
{
    struct box box = {.x = x, .y = y, .w = 12, .h = 12};
    rect(p, &box, class);
    label(p, x + 17, y + 11, 12, text);
    return x + 17 + text_width(text, 12) + 14;
}

static void legend_colours(const struct picture *p, int y)
{
    int64_t count = p->by == SVG_PP ? p->pp : p->dp;
    const char *what = p->by == SVG_PP ? "stage" : "replica";
    int x = MARGIN;
    for (int64_t i = 0; i < count && i < STAGES_MAX && x < p->width - 120; i++) {
        struct svg_rank r = {.pp = p->by == SVG_PP ? i : 0, .dp = p->by == SVG_DP ? i : 0};
        struct rgb c = rank_colour(p, &r);
        char text[32];
        (void)snprintf(text, sizeof text, "%s %" PRId64, i == 0 ? what : "", i);
        (void)fprintf(p->out, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"#%02x%02x%02x\"/>\n",
                      x, y, c.r, c.g, c.b);
        label(p, x + 17, y + 11, 12, text + (text[0] == ' '));
        x += 17 + text_width(text, 12) + 10;
        if (i + 1 < count && (i + 1 == STAGES_MAX || x >= p->width - 120))
            label(p, x, y + 11, 12, "…");
    }
}

static void draw_legend(const struct picture *p)
{
    static const char *const words[] = {
        [SVG_TP] = "colour: TP group; every group has one of its own",
        [SVG_PP] = "hue: pipeline stage (PP); lightness: replica (DP)",
        [SVG_DP] = "hue: replica (DP); lightness: pipeline stage (PP)",
    };
    int y = p->height - 58, x = MARGIN;
    x = legend_class(p, x, y, "free", "free");
    x = legend_class(p, x, y, "taken", "in use by others");
    x = legend_class(p, x, y, "spare", "spare");
    x = legend_class(p, x, y, "drained", "drained or down");
    (void)legend_class(p, x, y, "nvlink", "NVLink domain");
    if (p->n_placed == 0)
        return;
    label(p, MARGIN, y + 30, 12, words[p->by]);
    if (p->by != SVG_TP)
        legend_colours(p, y + 38);
}

static void draw_head(const struct picture *p)
{
    (void)fprintf(
        p->out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
        "font-family=\"sans-serif\">\n",
        p->width, p->height, p->width, p->height);
    (void)fputs("<title>", p->out);
    put_text(p, p->title);
    (void)fputs("</title>\n"
                "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
                "<path d=\"M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2\" stroke=\"#a33\" "
                "stroke-width=\"1\"/></pattern></defs>\n"
                "<style>\n"
                "text{fill:#222}\n"
                ".page{fill:#fff}\n"
                ".pod{fill:#f4f5f7;stroke:#9aa0a8}\n"
                ".rack{fill:#fff;stroke:#c3c8ce}\n"
                ".nvlink{fill:none;stroke:#76b900}\n"
                ".free{fill:#e3e6ea}\n"
                ".taken{fill:#8d949c}\n"
                ".spare{fill:#fff;stroke:#c08a00;stroke-width:1}\n"
                ".drained{fill:url(#hatch);stroke:#a33}\n"
                "</style>\n",
                p->out);
    struct box page = {.w = p->width, .h = p->height};
    rect(p, &page, "page");
    label(p, MARGIN, MARGIN + 16, 16, p->title);
}

static void clear(struct picture *p)
{
    free(p->order);
    free(p->first_slot);
    free(p->at);
    free(p->racks);
    free(p->pods);
}

void svg_cluster(FILE *out, const struct svg_node *nodes, size_t n_nodes, const struct svg_rank *placed,
                 size_t n_placed, enum svg_colour by, const char *title)
{
    struct picture p = {.out = out,
                        .nodes = nodes,
                        .n_nodes = n_nodes,
                        .placed = placed,
                        .n_placed = n_placed,
                        .by = by,
                        .title = title};
    sort_nodes(&p);
    seat_ranks(&p);
    lay_out(&p);
    draw_head(&p);
    for (size_t i = 0; i < p.n_pods; i++)
        draw_pod(&p, &p.pods[i]);
    draw_legend(&p);
    (void)fputs("</svg>\n", out);
    clear(&p);
}
