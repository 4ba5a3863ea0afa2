/* save.c - SAVE: makes a model of all that the job has. */
#include <inttypes.h>
#include <string.h>

#include "ps/client/client_inside.h"
#include "base/alloc.h"
#include "ckpt/remote.h"
#include "ps/coord/coord_save.h"
#include "ps/recipe.h"
#include "ps/server/server_inside.h"

static const fl_field request[] = {
    FL_FIELD(U32, fl_save_request, keep),
    FL_FIELD(U32, fl_save_request, kind),
    FL_FIELD(REST, fl_save_request, dir),
    FL_FIELDS_END,
};

static const fl_field reply[] = {
    FL_FIELD(U64, fl_save_reply, step),
    FL_FIELD(TEXT, fl_save_reply, version),
    FL_FIELD(TEXT, fl_save_reply, base),
    FL_FIELD(TEXT, fl_save_reply, whole),
    FL_FIELDS_END,
};

const fl_msg_payload fl_msg_save_request = { .fields = request };
const fl_msg_payload fl_msg_save_reply = { .fields = reply };

fl_save_place fl_save_split(fl_msg_bytes joined)
{
    const char *at = joined.data;
    const char *end = joined.len ? memchr(at, '\0', (size_t)joined.len) : NULL;
    uint64_t len = end ? (uint64_t)(end - at) : joined.len;

    return (fl_save_place){ .path = { at, len },
                            .rest = { end ? end + 1 : NULL,
                                      end ? joined.len - len - 1 : 0 } };
}

void fl_save_join(fl_pack *out, const char *path, fl_msg_bytes rest)
{
    fl_pack_bytes(out, path, strlen(path));
    if (!rest.len)
        return;
    fl_pack_u8(out, 0);
    fl_pack_bytes(out, rest.data, (size_t)rest.len);
}

fl_status fl_client_save(fl_client *c, const fl_save_request *r,
                         fl_save_reply *out, fl_ending ending)
{
    fl_call_spec call = { .type = FL_MSG_SAVE, .request = r, .out = out };

    return fl_client_call(c, &call, ending);
}

/* --- server 0 ------------------------------------------------------------- */

/* The copy is there before it is looked at. */
fl_status fl_save_read_dir(fl_msg_bytes from, char to[FL_SAVE_DIR_MAX + 1])
{
    if (!from.len || from.len > FL_SAVE_DIR_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "a model is in a directory, whose name has 1 to %d bytes",
                FL_SAVE_DIR_MAX);
    memcpy(to, from.data, (size_t)from.len);
    to[from.len] = '\0';
    for (const char *at = to; at < to + from.len; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            FL_FAIL(FL_ERR_INVAL,
                    "the name of a model's directory has the byte 0x%02x in it",
                    (unsigned char)*at);
    if (*to != '/' && !fl_remote_has_scheme(to))
        FL_FAIL(FL_ERR_INVAL,
                "the model of a job is in %s: give a path from the root, as "
                "each server has a working directory of its own",
                to);
    return FL_OK;
}

static fl_status check_asker(fl_server *s, const fl_server_request *r)
{
    const fl_identity *who = fl_session_who(r->session);

    if (who->role == FL_MEMBER_TOOL)
        return FL_OK;
    return fl_coord_check_asker(s->coord, who->rank, who->incarnation,
                                "a save");
}

/* What servers will read is read here first. */
static fl_status check_dir(fl_msg_bytes dir)
{
    fl_save_place w = fl_save_split(dir);
    char path[FL_SAVE_DIR_MAX + 1];
    fl_save_recipe recipe;

    FL_TRY(fl_save_read_dir(w.path, path));
    if (!w.rest.len)
        return FL_OK;
    FL_TRY(fl_save_recipe_read(&recipe, w.rest));
    fl_save_recipe_release(&recipe);
    return FL_OK;
}

static fl_status check_kind(const fl_save_wanted *w)
{
    if (w->kind >= FL_SAVE_KINDS)
        FL_FAIL(FL_ERR_INVAL, "there is no save of kind %" PRIu32, w->kind);
    if ((w->kind & FL_SAVE_KIND_BY_SCORE) && !fl_save_split(w->dir).rest.len)
        FL_FAIL(FL_ERR_INVAL,
                "a model to train on has all rows, whatever their scores");
    return FL_OK;
}

/* The peer may still write to its bytes: a copy is looked at and kept. */
static fl_status take_save(fl_server *s, const fl_server_request *r)
{
    const fl_save_request *q = r->request;
    size_t len = (size_t)q->dir.len;
    char *dir = fl_try_alloc(len + 1);
    fl_save_wanted wanted = { .dir = { dir, len },
                              .keep = q->keep,
                              .kind = q->kind };
    fl_status st;

    if (!dir)
        FL_FAIL(FL_ERR_NOMEM, "no memory for what a save is asked for");
    if (len)
        memcpy(dir, q->dir.data, len);
    st = check_dir(wanted.dir);
    if (!st)
        st = check_kind(&wanted);
    if (!st)
        fl_coord_save(s->coord, r->reply, &wanted, fl_server_now_ms(s));
    fl_data_free(dir, len + 1);
    return st;
}

void fl_server_save(fl_server *s, const fl_server_request *r)
{
    fl_status st = check_asker(s, r);

    s->level = FL_LOG_INFO;
    if (!st)
        st = take_save(s, r);
    if (st)
        fl_reply_error(r->reply, st);
}

void fl_server_answer_saved(void *arg, void *question, fl_status st,
                            const fl_save_reply *r)
{
    (void)arg;
    if (st)
        fl_reply_error(question, st);
    else
        fl_server_reply(question, FL_MSG_SAVE, r);
}
