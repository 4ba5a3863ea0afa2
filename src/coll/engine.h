/* engine.h - what stands behind coll.h: a descriptor and a row of engines.def.
 *
 * A call that reaches an engine is sound by itself (kind, type, root, ring, and
 * sizes that fit into memory). An engine's own struct begins with fl_coll.
 */
#ifndef FL_COLL_ENGINE_H
#define FL_COLL_ENGINE_H

#include "coll/coll.h"

typedef struct fl_coll_engine {
    const char *name;
    fl_status (*open)(const fl_coll_options *o, fl_coll **out);
    void (*close)(fl_coll *c);
    /* is_helped: help is called next. */
    void (*begin)(fl_coll *c, const fl_coll_call *call, bool is_helped);
    /* Works on what is under way until is_over(arg), or until others will end it
       without help. NULL: they always do. */
    void (*help)(fl_coll *c, bool (*is_over)(void *arg), void *arg);
    void (*fail)(fl_coll *c, fl_status why);
    /* NULL: it has ways of its own, and no parts come. */
    void (*on_part)(fl_coll *c, int from, const void *bytes, size_t n,
                    fl_coll_receipt receipt);
    bool (*waits_for)(fl_coll *c, char *text, size_t cap);
} fl_coll_engine;

struct fl_coll {
    const fl_coll_engine *engine;
    int rank, n_ranks;
    fl_coll_stats stats;
};

/* FL_ERR_NOTFOUND lists those that there are. */
FL_MUST_CHECK
fl_status fl_coll_engine_get(const char *name, const fl_coll_engine **out);

#define FL_COLL_ENGINE(name) extern const fl_coll_engine fl_coll_engine_##name;
#include "coll/engines.def"
#undef FL_COLL_ENGINE

#endif
