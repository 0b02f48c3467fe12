/* simsvg: two areas (held by jobs, and within it new training) and two lines (out for repair, free devices on torn nodes) over days. */
#include "launcher/simsvg.h"

#include <math.h>

enum { WIDTH = 960, HEIGHT = 420, LEFT = 60, RIGHT = 20, TOP = 56, BOTTOM = 64 };
#define PLOT_W ((double)(WIDTH - LEFT - RIGHT))
#define PLOT_H ((double)(HEIGHT - TOP - BOTTOM))

static double x_of(const struct sim_result *r, size_t i)
{
    return LEFT + PLOT_W * (double)i / (double)r->n_points;
}

static double y_of(double share)
{
    double s = share < 0 ? 0 : share > 1 ? 1 : share;
    return TOP + PLOT_H * (1 - s);
}

static void put_text(FILE *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '<')
            (void)fputs("&lt;", out);
        else if (c == '>')
            (void)fputs("&gt;", out);
        else if (c == '&')
            (void)fputs("&amp;", out);
        else if (c >= ' ' && c != 0x7f)
            (void)fputc(c, out);
    }
}

/* ---- curves: each point stands for an interval, so they are steps ---- */

typedef double curve_fn(const struct sim_point *p);

static double held(const struct sim_point *p)
{
    return p->held;
}

static double useful(const struct sim_point *p)
{
    return p->useful;
}

static double down(const struct sim_point *p)
{
    return p->down;
}

static double torn(const struct sim_point *p)
{
    return p->torn_nodes;
}

static void path(FILE *out, const struct sim_result *r, curve_fn *curve, bool area)
{
    (void)fprintf(out, "M%.1f %.1f", x_of(r, 0), area ? y_of(0) : y_of(curve(&r->points[0])));
    for (size_t i = 0; i < r->n_points; i++) {
        double y = y_of(curve(&r->points[i]));
        (void)fprintf(out, "L%.1f %.1fL%.1f %.1f", x_of(r, i), y, x_of(r, i + 1), y);
    }
    if (area)
        (void)fprintf(out, "L%.1f %.1fZ", x_of(r, r->n_points), y_of(0));
}

static const struct curve {
    const char *class, *words;
    curve_fn *of;
    bool area;
} curves[] = {
    {"held", "held by jobs (utilisation)", held, true},
    {"useful", "new training (goodput)", useful, true},
    {"down", "out for repair", down, false},
    {"torn", "free devices on partly used nodes, of the free", torn, false},
};
enum { N_CURVES = sizeof(curves) / sizeof(curves[0]) };

static void draw_curves(FILE *out, const struct sim_result *r)
{
    for (size_t i = 0; i < N_CURVES && r->n_points > 0; i++) {
        (void)fprintf(out, "<path class=\"%s\" d=\"", curves[i].class);
        path(out, r, curves[i].of, curves[i].area);
        (void)fputs("\"/>\n", out);
    }
}

/* ---- around them ---- */

static void draw_legend(FILE *out)
{
    static const int at[N_CURVES] = {0, 210, 400, 530};
    for (size_t i = 0; i < N_CURVES; i++) {
        int x = LEFT + at[i], y = HEIGHT - 22;
        if (curves[i].area)
            (void)fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"14\" height=\"10\"/>",
                          curves[i].class, x, y);
        else
            (void)fprintf(out, "<path class=\"%s\" d=\"M%d %dh14\"/>", curves[i].class, x, y + 5);
        (void)fprintf(out, "<text x=\"%d\" y=\"%d\">%s</text>\n", x + 20, y + 9, curves[i].words);
    }
}

/* A step of 1, 2 or 5 times a power of ten with at most 12 of them. */
static double tick_step(double days)
{
    double step = pow(10, floor(log10(days / 12)));
    static const double times[] = {1, 2, 5, 10};
    for (size_t i = 0; i < 4; i++)
        if (days / (step * times[i]) <= 12)
            return step * times[i];
    return step * 10;
}

static void draw_axes(FILE *out, const struct sim_result *r)
{
    double days = (double)r->span_ms / 86400e3, step = tick_step(days);
    for (int percent = 0; percent <= 100; percent += 20) {
        double y = y_of(percent / 100.0);
        (void)fprintf(
            out,
            "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"end\" x=\"%d\" y=\"%.1f\">%d %%</text>\n",
            LEFT, y, WIDTH - RIGHT, LEFT - 6, y + 4, percent);
    }
    for (int i = 0; i * step <= days * 1.0001; i++) {
        double x = LEFT + PLOT_W * i * step / days;
        (void)fprintf(
            out,
            "<path class=\"grid\" d=\"M%.1f %dv4\"/><text class=\"mid\" x=\"%.1f\" y=\"%d\">%.6g</text>\n", x,
            HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 18, i * step);
    }
    (void)fprintf(out, "<text class=\"end\" x=\"%d\" y=\"%d\">days</text>\n", WIDTH - RIGHT,
                  HEIGHT - BOTTOM + 32);
}

void simsvg_write(FILE *out, const struct sim_result *r, const char *title)
{
    (void)fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
        "font-size=\"12\" fill=\"#333\">\n<style>.held{fill:#bcd6ee}.useful{fill:#3b7dbd}"
        ".down,.torn{fill:none;stroke:#c0392b;stroke-width:1.5}.torn{stroke:#888;stroke-dasharray:4 3}"
        ".grid{fill:none;stroke:#ddd}.end{text-anchor:end}.mid{text-anchor:middle}</style>\n"
        "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"22\" font-size=\"16\">",
        WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    put_text(out, title);
    (void)fprintf(out,
                  "</text>\n<text x=\"%d\" y=\"42\">%lld nodes, %lld devices; utilisation %.1f %%, goodput "
                  "%.1f %%</text>\n",
                  LEFT, (long long)r->nodes, (long long)r->devices, 100 * r->utilisation, 100 * r->goodput);
    draw_curves(out, r);
    draw_axes(out, r);
    draw_legend(out);
    (void)fputs("</svg>\n", out);
}
