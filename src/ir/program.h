/* program.h - programs: blocks of operators over named variables.
 *
 * A program owns everything in it (one arena); pointers into it live as long
 * as it does. Owner thread only while it is built; read-only afterwards, by
 * any thread. A failed append leaves the program as it was.
 */
#ifndef FL_IR_PROGRAM_H
#define FL_IR_PROGRAM_H

#include "base/map.h"
#include "base/rng.h"
#include "base/vec.h"
#include "ir/op.h"

/* Grad suffix and the mark of an empty place in a list of variables. */
#define FL_GRAD_SUFFIX "@GRAD"
#define FL_EMPTY_NAME "@EMPTY@"

enum fl_var_flag {
    FL_VAR_DATA = 1,       /* fed */
    FL_VAR_PERSIST = 2,    /* lives in the scope, from run to run */
    FL_VAR_PARAM = 4,      /* persistent and learned */
    FL_VAR_FROZEN = 8,     /* a parameter that is not trained */
    FL_VAR_STOP_GRAD = 16, /* no gradient flows through it */
    FL_VAR_DECLARED = 32,  /* printed even though it is a temporary */
    FL_VAR_TABLE = 64,     /* a parameter whose rows are in a table of ids */
};

/* A variable in a slot of an operator that stands in a block. One that is there
   twice has two. */
typedef struct fl_use {
    fl_op_node *node;
    fl_var *var;
    struct fl_use *prev, *next; /* of the variable, in no order */
} fl_use;

struct fl_var {
    const char *name;
    unsigned flags;
    fl_tensor meta;   /* type, kind, shape, levels; data is NULL */
    const char *init; /* parameters: "uniform(-1,1)", see optim/calls.h */
    double lr;        /* parameters: multiplier of the learning rate */
    const char *regularizer; /* parameters: "l2(0.1)", or NULL */
    const char *clip;        /* parameters: "value(-1,1)", "norm(2)", or NULL */
    uint64_t tag;            /* the builder's */
    fl_use *first_use, *last_use; /* by operators of blocks, in any slot */
    fl_block *block;
    fl_var *prev, *next;
};

typedef struct fl_args {
    fl_var **vars; /* entries of gradient lists may be NULL */
    int n;
} fl_args;

/* What "relu" or "relu_grad" is: once per program and type. */
typedef struct fl_op_kind {
    const char *type;
    const fl_op *def;
    bool is_grad;
    int n_in, n_out;        /* slots; gradients have more */
    const char **in, **out; /* their names, "X" or "Out@GRAD" */
} fl_op_kind;

struct fl_op_node {
    const fl_op_kind *kind;
    const fl_op *def;
    bool is_grad;
    fl_op_role role;
    uint64_t tag;      /* the builder's */
    fl_args *in, *out; /* by slot, see op.h */
    fl_attr *attrs;    /* by index of def->attrs */
    fl_use *uses;      /* room for one per argument */
    size_t n_uses;
    bool is_linked; /* it stands in its block */
    fl_block *block;
    fl_op_node *prev, *next;
};

struct fl_block {
    fl_program *program;
    int index, parent; /* parent is -1 for block 0 */
    fl_var *first_var, *last_var;
    fl_map vars;
    fl_op_node *first, *last;
    size_t n_ops;
};

/* Counters of generated names. Owner thread only. */
typedef struct fl_names {
    fl_map counts;
    char *prefix; /* or NULL */
} fl_names;

void fl_names_release(fl_names *n);

/* The next name for a key: prefix, unless the key has it, key, number. */
const char *fl_names_next(fl_names *n, const char *key, fl_arena *arena);

/* Where a program finds its operators. */
typedef struct fl_op_set {
    const fl_op *(*find)(const char *name);   /* NULL when unknown */
    const char *(*nearest)(const char *name); /* for messages */
    /* Why an operator that people know is not there; NULL: no such name, or
       the set refuses none by name. */
    const char *(*refusal)(const char *name);
} fl_op_set;

#define FL_ACCUMULATE_MAX 65536

struct fl_program {
    fl_arena arena;
    FL_VEC(fl_block *) blocks;
    FL_VEC(const char *) fetches; /* targets, in order */
    fl_map fetched;               /* the same, by name */
    fl_names names;
    fl_map kinds;  /* by type */
    fl_map makers; /* operators by what they make, see fl_program_maker */
    uint64_t seed;
    uint64_t accumulate;  /* batches that make one update; 0: nobody said */
    bool joins_parts;     /* an update is of gradients that replicas compute */
    uint64_t id, version; /* which program, and which state of it */
    bool is_default;      /* goes with its context: freeing does nothing */
    bool is_for_test;     /* a clone for test */
    const fl_op_set *ops;
    fl_ctx *ctx; /* whose layers build it; NULL: nobody's */
};

fl_program *fl_program_of(const fl_op_set *ops);
fl_block *fl_program_main(const fl_program *p); /* block 0 */
fl_block *fl_program_add_block(fl_program *p, const fl_block *parent);
void fl_program_fetch(fl_program *p, const char *name);
bool fl_program_is_fetched(const fl_program *p, const char *name);
void fl_program_clear_fetches(fl_program *p);

/* "fc" gives "fc_0", "fc_1", ...; the counter belongs to the program. */
const char *fl_program_name(fl_program *p, const char *prefix);

/* Looks in the block and its parents. */
fl_var *fl_block_find_var(const fl_block *b, const char *name);

/* Fails unless it can be the name of a variable. */
FL_MUST_CHECK
fl_status fl_check_name(const char *name);

/* A new variable; fails when the name is taken or not a name. */
FL_MUST_CHECK
fl_status fl_block_add_var(fl_block *b, const char *name, const fl_tensor *meta,
                           unsigned flags, fl_var **out);
void fl_block_remove_var(fl_block *b, fl_var *v);

/* What a parameter says in words; NULL: nothing. */
typedef struct fl_var_words {
    const char *init, *regularizer, *clip;
} fl_var_words;

/* Checks them and gives the variable copies; on failure it keeps its own. */
FL_MUST_CHECK
fl_status fl_var_set_words(fl_var *v, const fl_var_words *words);

/* What an operator is made from: see fl_op_args of the public block.h. */
typedef struct fl_op_spec {
    const char *type; /* "relu" or "relu_grad" */
    const fl_arg *in, *out;
    size_t n_in, n_out;
    const fl_named_attr *attrs;
    size_t n_attrs;
    fl_op_role role;
    uint64_t tag;
    bool redeclares; /* outputs that are there take what infer says */
} fl_op_spec;

/* Checks it, infers its outputs (creating those that do not exist) and appends
   it, or inserts it before `before`. Errors name operator, variable, shapes. */
FL_MUST_CHECK
fl_status fl_block_append(fl_block *b, const fl_op_spec *spec,
                          fl_op_node **out);
FL_MUST_CHECK
fl_status fl_block_insert(fl_block *b, fl_op_node *before,
                          const fl_op_spec *spec, fl_op_node **out);
void fl_block_remove(fl_block *b, fl_op_node *n);

/* The operator that makes what is called so (FL_OP_MAKES), the last one to say
   so; NULL when it is gone or says so no more. */
fl_op_node *fl_program_maker(const fl_program *p, const char *name);
/* An operator that stands in a block has its name from now on. */
void fl_program_note_maker(fl_op_node *n);

/* Puts another variable into a place of a slot, unchecked. */
void fl_node_put_arg(fl_op_node *n, fl_args *slot, int i, fl_var *v);
/* The same wherever the node reads v. */
void fl_node_read_instead(fl_op_node *n, const fl_var *v, fl_var *instead);
/* Adds one to a slot that takes a list, unchecked. */
void fl_node_add_arg(fl_op_node *n, fl_args *slot, fl_var *v);

/* Changes to what stands in a block already; what is refused changes
   nothing. */
FL_MUST_CHECK
fl_status fl_node_set_attr(fl_op_node *n, const char *name,
                           const fl_attr *value);
FL_MUST_CHECK
fl_status fl_node_set_arg(fl_op_node *n, fl_args *slot, int i, fl_var *v);
void fl_block_move(fl_block *b, fl_op_node *n, fl_op_node *before);
FL_MUST_CHECK
fl_status fl_block_rename_var(fl_block *b, fl_var *v, const char *name);

/* Index of an attribute; the error has the nearest one. */
FL_MUST_CHECK
fl_status fl_node_find_attr(const fl_op_node *n, const char *name, int *out);

/* Stores a copy of the value, without inferring anything. */
FL_MUST_CHECK
fl_status fl_node_bind_attr(fl_op_node *n, const char *name,
                            const fl_attr *value);

/* Number of input and output slots of a node (gradients have more). */
int fl_node_n_in(const fl_op_node *n);
int fl_node_n_out(const fl_op_node *n);

/* "relu" or "relu_grad"; slot names such as "Out@GRAD". */
const char *fl_node_type(const fl_op_node *n);
const char *fl_node_in_name(const fl_op_node *n, int slot);
const char *fl_node_out_name(const fl_op_node *n, int slot);

/* Flags of an input slot of a node; gradient slots of forward inputs keep
   theirs. */
unsigned fl_node_in_flags(const fl_op_node *n, int slot);

/* False when the node takes input `slot` for its shape alone. */
bool fl_node_reads(const fl_op_node *n, int slot);

/* Does the node write (any slot) or read v? */
bool fl_node_writes_var(const fl_op_node *n, const fl_var *v);
bool fl_node_uses_var(const fl_op_node *n, const fl_var *v);

/* "op mul (fc_0.tmp_0)": how messages name a node, by its first output. */
#define FL_NODE_TEXT_MAX 256
const char *fl_node_text(const fl_op_node *n, char buf[FL_NODE_TEXT_MAX]);

/* Runs infer of a node over the metas of its variables. */
FL_MUST_CHECK
fl_status fl_node_infer(fl_op_node *n);

/* The same; outputs that are neither data nor parameters take what comes out. */
FL_MUST_CHECK
fl_status fl_node_infer_anew(fl_op_node *n);

/* Gradients given to a gradient operator have the shapes of the outputs they
   belong to, as infer sees them from the tensors `in` of its slots. */
FL_MUST_CHECK
fl_status fl_node_check_grads(const fl_op_node *n, const fl_targs *in,
                              bool running);

/* A copy, or a copy for test: no backward, optimize, lr and rpc operators,
   is_test set where an operator has it. */
typedef enum fl_clone_kind { FL_CLONE_ALL, FL_CLONE_FOR_TEST } fl_clone_kind;
FL_MUST_CHECK
fl_status fl_program_clone(const fl_program *p, fl_clone_kind kind,
                           fl_program **out);

/* Copies an operator and those behind it in its block to the end of another
   block, which may be of another program, with the variables that they use and,
   into another program, the blocks that they run. A variable whose name `to`
   sees already is taken for the same. NULL: none. */
FL_MUST_CHECK
fl_status fl_block_copy(fl_block *to, const fl_op_node *first);

/* Keeps what the named targets need and makes them the fetches. */
FL_MUST_CHECK
fl_status fl_program_prune(fl_program *p, const char *const *targets, size_t n);

/* Leaves out the operators whose outputs are fed (FL_OP_FED). */
void fl_program_drop_fed(fl_program *p);

/* Every variable exists, has a writer before its first read, slots and
   attributes fit the descriptors, inferred shapes agree. */
FL_MUST_CHECK
fl_status fl_program_verify(const fl_program *p);

/* The text form, docs/formats/ir.md. print then parse then print is the
   identity. *text is freed with fl_free. */
char *fl_program_print(const fl_program *p);
FL_MUST_CHECK
fl_status fl_program_parse(const char *text, const fl_op_set *ops,
                           fl_program **out);

/* The attributes of an operator, "{axis=1, mode=SUM}" or nothing; names and
   values lie in the arena. */
typedef FL_VEC(fl_named_attr) fl_named_attrs;
FL_MUST_CHECK
fl_status fl_attrs_parse(fl_program *p, const char *type, const char *text,
                         fl_arena *arena, fl_named_attrs *out);

/* Adds the lines of a text to a program. Lines before a bad one stay. */
FL_MUST_CHECK
fl_status fl_program_parse_into(fl_program *p, const char *text);

/* Of that text: the line of an operator, and what a variable is, "f32[-1,4]". */
void fl_node_print(const fl_op_node *n, fl_str *out);
void fl_type_print(const fl_tensor *t, fl_str *out);

/* A drawing of programs side by side in the language of Graphviz: boxes and lines
   of graph.h. A title may be NULL. Operators that the first program does not have
   stand out in the others. Freed with fl_free. */
typedef struct fl_drawn_program {
    const fl_program *program;
    const char *title;
} fl_drawn_program;
char *fl_programs_dot(const fl_drawn_program *programs, size_t n);

#endif
