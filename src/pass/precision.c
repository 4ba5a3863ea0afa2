/* precision.c - what the setting precision means on this machine. */
#include "pass/precision.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kernel/gemm_bf16.h"
#include "kernel/isa.h"

static void tell(bool is_bf16)
{
    static atomic_flag told[2] = { ATOMIC_FLAG_INIT, ATOMIC_FLAG_INIT };

    if (atomic_flag_test_and_set(&told[is_bf16]))
        return;
    if (!is_bf16)
        FL_INFO("precision", "auto: products stay f32, this machine does not "
                             "multiply bf16 faster");
    else if (fl_bf16_is_fast())
        FL_INFO("precision", "products with weights are computed in bf16 (%s)",
                fl_isa_bf16_name(fl_isa_bf16()));
    else
        FL_WARN("precision",
                "bf16 is emulated, since this machine does not multiply it: "
                "the same rounding, and slower than f32");
}

static bool choose(const char *name)
{
    bool is_auto = !strcmp(name, "auto");
    bool is_bf16 = is_auto ? fl_bf16_is_fast() : !strcmp(name, "bf16");

    if (is_auto || is_bf16)
        tell(is_bf16);
    return is_bf16;
}

fl_precision fl_precision_of(const fl_conf *conf)
{
    return (fl_precision){ .is_bf16 = choose(conf->precision),
                           .allow = conf->precision_allow,
                           .deny = conf->precision_deny };
}

fl_status fl_precision_named(const char *name, fl_precision *out)
{
    if (!name)
        name = "f32";
    if (strcmp(name, "f32") != 0 && strcmp(name, "bf16") != 0 &&
        strcmp(name, "auto") != 0)
        FL_FAIL(FL_ERR_INVAL, "precision is '%s'; there are f32, bf16 and auto",
                name);
    *out = (fl_precision){ .is_bf16 = choose(name), .allow = "", .deny = "" };
    return FL_OK;
}

static bool same_list(const char *a, const char *b)
{
    return !strcmp(a ? a : "", b ? b : "");
}

bool fl_precision_equal(const fl_precision *a, const fl_precision *b)
{
    return a->is_bf16 == b->is_bf16 && same_list(a->allow, b->allow) &&
           same_list(a->deny, b->deny);
}

fl_precision fl_precision_copy(const fl_precision *p)
{
    return (fl_precision){ .is_bf16 = p->is_bf16,
                           .allow = fl_strdup(p->allow ? p->allow : ""),
                           .deny = fl_strdup(p->deny ? p->deny : "") };
}

void fl_precision_release(fl_precision *p)
{
    fl_free((void *)(uintptr_t)p->allow);
    fl_free((void *)(uintptr_t)p->deny);
    *p = (fl_precision){ 0 };
}
