/* dot.c - programs in the language of Graphviz, whose dot lays them out.
 *
 * Forward, backward, update and communication stand apart, each in a frame; so
 * does every further block. A box has its number for an id, so that a drawing can
 * be linked to (#p0_12), and its members with all attributes as its tooltip.
 * Lines that lead from one part to another do not decide where a box is, so that
 * the parts are columns side by side and no part waits below another.
 */
#include <string.h>

#include "ir/attr.h"
#include "ir/graph.h"

/* Members that a tooltip lists. */
#define LISTED_MAX 12

/* Where a box stands, and what colour it has. */
typedef enum part { FORWARD, BACKWARD, UPDATE, TALK, N_PARTS } part;

static const struct {
    const char *name, *fill, *frame;
} parts[N_PARTS] = {
    [FORWARD] = { "forward", "#dcebff", "#7fa7dc" },
    [BACKWARD] = { "backward", "#ffe6d2", "#dc9a64" },
    [UPDATE] = { "update", "#dcf5dc", "#74b874" },
    [TALK] = { "communication", "#eadcff", "#9d7fd6" },
};

static const part part_of_role[] = {
    [FL_OP_ROLE_FORWARD] = FORWARD, [FL_OP_ROLE_BACKWARD] = BACKWARD,
    [FL_OP_ROLE_OPTIMIZE] = UPDATE, [FL_OP_ROLE_LR] = UPDATE,
    [FL_OP_ROLE_RPC] = TALK,
};

static const struct {
    const char *shape, *fill;
} looks[] = {
    [FL_BOX_OP] = { "box", NULL },
    [FL_BOX_INPUT] = { "ellipse", "#ffffff" },
    [FL_BOX_STATE] = { "cylinder", "#f3f3f3" },
    [FL_BOX_FETCH] = { "note", "#fff7b8" },
};

typedef struct drawing {
    fl_str out;
    fl_graph graph;
    size_t program;      /* of several, which one */
    const fl_map *known; /* lines of operators of the first; NULL: this is it */
    int n_frames;
} drawing;

/* --- texts ---------------------------------------------------------------- */

/* For labels, which are HTML. */
static void add_html(fl_str *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            fl_str_add(out, "&lt;");
            break;
        case '>':
            fl_str_add(out, "&gt;");
            break;
        case '&':
            fl_str_add(out, "&amp;");
            break;
        default:
            fl_str_addf(out, "%c", *text);
        }
}

/* For strings between quotes. dot takes backslashes for its own and what looks
   like an entity for one. */
static void add_quoted(fl_str *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '"':
            fl_str_add(out, "\\\"");
            break;
        case '\\':
            fl_str_add(out, "\\\\");
            break;
        case '&':
            fl_str_add(out, "&amp;");
            break;
        case '\n':
            fl_str_add(out, "\\n");
            break;
        default:
            fl_str_addf(out, "%c", *text);
        }
}

static const char *name_of(const fl_box *b, size_t i)
{
    const fl_op_node *n = b->kind == FL_BOX_OP ? b->nodes.data[i] : NULL;

    if (!n)
        return b->vars.data[i]->name;
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int k = 0; k < n->out[s].n; k++)
            if (n->out[s].vars[k])
                return n->out[s].vars[k]->name;
    return "";
}

static void add_member(fl_str *out, const fl_box *b, size_t i)
{
    if (b->kind == FL_BOX_OP) {
        fl_node_print(b->nodes.data[i], out);
        return;
    }
    fl_str_addf(out, "%s : ", b->vars.data[i]->name);
    fl_type_print(&b->vars.data[i]->meta, out);
}

static void add_tooltip(drawing *d, const fl_box *b)
{
    size_t n = fl_box_count(b);
    fl_str text = { 0 };

    for (size_t i = 0; i < n && i < LISTED_MAX; i++) {
        fl_str_add(&text, i ? "\n" : "");
        add_member(&text, b, i);
    }
    if (n > LISTED_MAX)
        fl_str_addf(&text, "\n... and %zu more", n - LISTED_MAX);
    fl_str_add(&d->out, "tooltip=\"");
    add_quoted(&d->out, fl_str_text(&text));
    fl_str_add(&d->out, "\"");
    fl_str_release(&text);
}

/* --- boxes ---------------------------------------------------------------- */

static part colour_of(const fl_box *b)
{
    if (b->kind == FL_BOX_OP &&
        (b->nodes.data[0]->def->flags & (FL_OP_WAITS | FL_OP_ORDERED)))
        return TALK;
    return part_of_role[b->role];
}

/* The first name, and the last where there are several. */
static void add_names(drawing *d, const fl_box *b)
{
    size_t n = fl_box_count(b);

    if (!*name_of(b, 0))
        return;
    fl_str_add(&d->out, "<br/><font point-size=\"9\" color=\"#506070\">");
    add_html(&d->out, name_of(b, 0));
    if (n > 1) {
        fl_str_add(&d->out, " ... ");
        add_html(&d->out, name_of(b, n - 1));
    }
    fl_str_add(&d->out, "</font>");
}

static void add_label(drawing *d, const fl_box *b)
{
    size_t n = fl_box_count(b);
    fl_str type = { 0 };

    fl_str_add(&d->out, "label=<<b>");
    if (b->kind == FL_BOX_OP)
        add_html(&d->out, fl_node_type(b->nodes.data[0]));
    else
        add_html(&d->out, name_of(b, 0));
    fl_str_add(&d->out, "</b>");
    if (n > 1)
        fl_str_addf(&d->out, " x %zu", n);
    if (b->kind == FL_BOX_OP || n > 1)
        add_names(d, b);
    if (b->kind == FL_BOX_INPUT || b->kind == FL_BOX_STATE) {
        fl_type_print(&b->vars.data[0]->meta, &type);
        fl_str_add(&d->out, "<br/><font point-size=\"9\">");
        add_html(&d->out, fl_str_text(&type));
        fl_str_add(&d->out, "</font>");
        fl_str_release(&type);
    }
    fl_str_add(&d->out, ">");
}

static bool is_new(const drawing *d, const fl_box *b)
{
    fl_str text = { 0 };
    bool known;

    if (!d->known || b->kind != FL_BOX_OP)
        return false;
    fl_node_print(b->nodes.data[0], &text);
    known = fl_map_find(d->known, text.data);
    fl_str_release(&text);
    return !known;
}

static void add_box(drawing *d, size_t i)
{
    const fl_box *b = &d->graph.boxes.data[i];
    const char *fill = looks[b->kind].fill;

    fl_str_addf(&d->out, "p%zu_%zu [id=\"p%zu_%zu\", URL=\"#p%zu_%zu\", ",
                d->program, i, d->program, i, d->program, i);
    fl_str_addf(&d->out, "shape=%s, fillcolor=\"%s\", %s", looks[b->kind].shape,
                fill ? fill : parts[colour_of(b)].fill,
                is_new(d, b) ? "color=\"#c02020\", penwidth=2.5, " : "");
    add_label(d, b);
    fl_str_add(&d->out, ", ");
    add_tooltip(d, b);
    fl_str_add(&d->out, "];\n");
}

/* --- frames --------------------------------------------------------------- */

static void open_frame(drawing *d, const char *title, const char *colour)
{
    fl_str_addf(&d->out, "subgraph cluster_%zu_%d {\nlabel=<<b>", d->program,
                d->n_frames++);
    add_html(&d->out, title);
    fl_str_addf(&d->out,
                "</b>>; labeljust=l; style=rounded; color=\"%s\"; "
                "tooltip=\"",
                colour);
    add_quoted(&d->out, title);
    fl_str_add(&d->out, "\";\n");
}

static void close_frame(drawing *d)
{
    fl_str_add(&d->out, "}\n");
}

/* The boxes of one part of block 0, or all of another block. */
static void add_frame(drawing *d, int block, part which)
{
    char title[32];
    bool any = false;

    snprintf(title, sizeof(title), "block %d", block);
    for (size_t i = 0; i < d->graph.boxes.len; i++) {
        const fl_box *b = &d->graph.boxes.data[i];

        if (b->block != block || (!block && part_of_role[b->role] != which))
            continue;
        if (!any)
            open_frame(d, block ? title : parts[which].name,
                       block ? "#909090" : parts[which].frame);
        any = true;
        add_box(d, i);
    }
    if (any)
        close_frame(d);
}

/* --- lines ---------------------------------------------------------------- */

static void add_line_label(drawing *d, const fl_graph_line *l, const char *key)
{
    fl_str type = { 0 };

    fl_str_addf(&d->out, ", %s=\"", key);
    if (l->n > 1)
        fl_str_addf(&d->out, "%zu x ", l->n);
    if (l->is_alike)
        fl_type_print(&l->var->meta, &type);
    add_quoted(&d->out, l->is_alike ? fl_str_text(&type) : "tensors");
    fl_str_add(&d->out, "\"");
    fl_str_release(&type);
}

/* Of values that were kept for the backward part there are many: they stay in the
   background. Inputs and state say their shapes themselves. */
static void add_line_look(drawing *d, const fl_graph_line *l)
{
    const fl_box *from = &d->graph.boxes.data[l->from];
    part p = part_of_role[from->role];
    part q = part_of_role[d->graph.boxes.data[l->to].role];

    if (p != q)
        fl_str_add(&d->out, ", constraint=false");
    if (p == FORWARD && q != FORWARD)
        fl_str_add(&d->out, ", style=dashed, color=\"#c8ced6\"");
    else if (from->kind == FL_BOX_OP)
        add_line_label(d, l, p == q ? "label" : "xlabel");
}

static void add_line(drawing *d, const fl_graph_line *l)
{
    size_t p = d->program;

    fl_str_addf(&d->out, "p%zu_%zu -> p%zu_%zu [URL=\"#p%zu_%zu\", tooltip=\"",
                p, l->from, p, l->to, p, l->from);
    add_quoted(&d->out, l->var->name);
    fl_str_add(&d->out, l->n > 1 ? " ...\"" : "\"");
    add_line_look(d, l);
    fl_str_add(&d->out, "];\n");
}

/* An operator that runs a block points to it. */
static void add_block_line(drawing *d, size_t from, int block)
{
    for (size_t i = 0; i < d->graph.boxes.len; i++)
        if (d->graph.boxes.data[i].block == block) {
            fl_str_addf(&d->out,
                        "p%zu_%zu -> p%zu_%zu [style=dotted, "
                        "label=\"block %d\", URL=\"#p%zu_%zu\"];\n",
                        d->program, from, d->program, i, block, d->program, i);
            return;
        }
}

static void add_blocks_of(drawing *d, size_t box)
{
    const fl_box *b = &d->graph.boxes.data[box];

    for (size_t k = 0; k < b->nodes.len; k++) {
        const fl_op_node *n = b->nodes.data[k];

        for (int i = 0; i < fl_op_n_attrs(n->def); i++)
            if (n->attrs[i].type == FL_ATTR_BLOCK && n->attrs[i].i >= 0)
                add_block_line(d, box, (int)n->attrs[i].i);
    }
}

/* --- programs ------------------------------------------------------------- */

static void add_program(drawing *d, const fl_drawn_program *p)
{
    fl_graph_init(&d->graph, p->program);
    if (p->title)
        open_frame(d, p->title, "#606060");
    for (int i = 0; i < N_PARTS; i++)
        add_frame(d, 0, (part)i);
    for (size_t b = 1; b < p->program->blocks.len; b++)
        add_frame(d, (int)b, FORWARD);
    for (size_t i = 0; i < d->graph.lines.len; i++)
        add_line(d, &d->graph.lines.data[i]);
    for (size_t i = 0; i < d->graph.boxes.len; i++)
        add_blocks_of(d, i);
    if (p->title)
        close_frame(d);
    fl_graph_release(&d->graph);
}

/* The keys are the arena's. */
static void note_lines(fl_map *known, const fl_program *p, fl_arena *arena)
{
    for (size_t b = 0; b < p->blocks.len; b++)
        for (const fl_op_node *n = p->blocks.data[b]->first; n; n = n->next) {
            fl_str text = { 0 };
            char *line;

            fl_node_print(n, &text);
            line = fl_arena_strdup(arena, text.data);
            fl_map_put(known, line, line);
            fl_str_release(&text);
        }
}

#define ARENA_CHUNK_BYTES (16 << 10)

static const char head[] =
    "digraph program {\n"
    "graph [fontname=\"sans-serif\", fontsize=12, nodesep=0.25, ranksep=0.45, "
    "tooltip=\" \"];\n"
    "node [fontname=\"sans-serif\", fontsize=11, style=\"rounded,filled\", "
    "color=\"#405060\", height=0.3, margin=\"0.1,0.05\"];\n"
    "edge [fontname=\"sans-serif\", fontsize=8, fontcolor=\"#506070\", "
    "color=\"#708090\", arrowsize=0.6];\n";

char *fl_programs_dot(const fl_drawn_program *programs, size_t n)
{
    drawing d = { 0 };
    fl_map known = { 0 };
    fl_arena arena;

    fl_arena_init(&arena, ARENA_CHUNK_BYTES);
    fl_str_add(&d.out, head);
    for (d.program = 0; d.program < n; d.program++) {
        add_program(&d, &programs[d.program]);
        if (!d.program && n > 1)
            note_lines(&known, programs[0].program, &arena);
        d.known = &known;
    }
    fl_str_add(&d.out, "}\n");
    fl_map_release(&known);
    fl_arena_release(&arena);
    return fl_str_take(&d.out);
}
