/* svg.c - draws a program: operators as boxes in layers, variables as edges.
 *
 * A layer is the longest path from the inputs. Boxes are placed left to right
 * in program order; this is a picture for people, not a graph layout engine.
 */
#include "ir/program.h"

#define BOX_W 190
#define BOX_H 34
#define GAP_X 26
#define GAP_Y 56
#define MARGIN 20

typedef struct spot {
    const fl_op_node *node;
    int layer, column;
} spot;

typedef struct drawing {
    spot *spots;
    size_t n;
    int n_layers, n_columns;
} drawing;

static const char *const role_colors[] = { "#dcebff", "#ffe6d2", "#dcf5dc",
                                           "#f5f0c8", "#eadcff" };

static bool feeds(const fl_op_node *from, const fl_op_node *to)
{
    for (int s = 0; s < fl_node_n_in(to); s++)
        for (int i = 0; i < to->in[s].n; i++)
            if (to->in[s].vars[i] &&
                fl_node_writes_var(from, to->in[s].vars[i]))
                return true;
    return false;
}

static void place(drawing *d, const fl_block *b)
{
    int *filled;
    size_t i = 0;

    d->n = b->n_ops;
    d->spots = fl_alloc((d->n + 1) * sizeof(spot));
    filled = fl_alloc((d->n + 1) * sizeof(int));
    for (const fl_op_node *n = b->first; n; n = n->next, i++) {
        spot *s = &d->spots[i];

        s->node = n;
        for (size_t j = 0; j < i; j++)
            if (d->spots[j].layer >= s->layer && feeds(d->spots[j].node, n))
                s->layer = d->spots[j].layer + 1;
        s->column = filled[s->layer]++;
        if (s->layer + 1 > d->n_layers)
            d->n_layers = s->layer + 1;
        if (filled[s->layer] > d->n_columns)
            d->n_columns = filled[s->layer];
    }
    fl_free(filled);
}

static int box_x(const spot *s)
{
    return MARGIN + s->column * (BOX_W + GAP_X);
}

static int box_y(const spot *s)
{
    return MARGIN + s->layer * (BOX_H + GAP_Y);
}

static void escape(const char *s, fl_str *out)
{
    for (; *s; s++)
        switch (*s) {
        case '<':
            fl_str_add(out, "&lt;");
            break;
        case '&':
            fl_str_add(out, "&amp;");
            break;
        default:
            fl_str_addf(out, "%c", *s);
        }
}

static void draw_edges(const drawing *d, size_t to, fl_str *out)
{
    const spot *t = &d->spots[to];

    for (size_t from = 0; from < to; from++) {
        const spot *f = &d->spots[from];

        if (feeds(f->node, t->node))
            fl_str_addf(out,
                        "<path d=\"M%d %d C%d %d %d %d %d %d\" fill=\"none\" "
                        "stroke=\"#8090a0\"/>\n",
                        box_x(f) + BOX_W / 2, box_y(f) + BOX_H,
                        box_x(f) + BOX_W / 2, box_y(f) + BOX_H + GAP_Y / 2,
                        box_x(t) + BOX_W / 2, box_y(t) - GAP_Y / 2,
                        box_x(t) + BOX_W / 2, box_y(t));
    }
}

static void draw_box(const spot *s, fl_str *out)
{
    char text[FL_NODE_TEXT_MAX];

    fl_str_addf(out,
                "<g><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\""
                " fill=\"%s\" stroke=\"#405060\"/>\n<title>",
                box_x(s), box_y(s), BOX_W, BOX_H, role_colors[s->node->role]);
    escape(fl_node_text(s->node, text), out);
    fl_str_addf(out, "</title><text x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
                box_x(s) + BOX_W / 2, box_y(s) + 15);
    escape(fl_node_type(s->node), out);
    fl_str_addf(out,
                "</text><text x=\"%d\" y=\"%d\" text-anchor=\"middle\" "
                "fill=\"#506070\">",
                box_x(s) + BOX_W / 2, box_y(s) + 28);
    if (fl_node_n_out(s->node) && s->node->out[0].n && s->node->out[0].vars[0])
        escape(s->node->out[0].vars[0]->name, out);
    fl_str_add(out, "</text></g>\n");
}

char *fl_program_svg(const fl_program *p)
{
    drawing d = { 0 };
    fl_str out = { 0 };

    place(&d, fl_program_main(p));
    fl_str_addf(&out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
                "height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n",
                2 * MARGIN + d.n_columns * (BOX_W + GAP_X),
                2 * MARGIN + d.n_layers * (BOX_H + GAP_Y));
    for (size_t i = 0; i < d.n; i++)
        draw_edges(&d, i, &out);
    for (size_t i = 0; i < d.n; i++)
        draw_box(&d.spots[i], &out);
    fl_str_add(&out, "</svg>\n");
    fl_free(d.spots);
    return fl_str_take(&out);
}
