/* http_json.h - the bodies of HTTP requests and answers. Owner thread only. */
#ifndef FL_FRONT_HTTP_JSON_H
#define FL_FRONT_HTTP_JSON_H

#include "base/arena.h"
#include "base/json.h"
#include "flotilla/predict.h"

/* {"inputs": {NAME: VALUES, ...}} as feeds for the model's inputs, by these'
   types and shapes. Values of a dense input are nested arrays as deep as its shape; of a
   ragged one, lists of lists. Ids above 2^53 are written as text. Feeds lie in
   the arena. */
FL_MUST_CHECK
fl_status fl_http_read(const char *body, size_t len, const fl_model *m,
                       fl_arena *arena, fl_feed **feeds, size_t *n_feeds);

/* {"outputs": {NAME: VALUES, ...}, "version": ID}; freed with fl_free. */
char *fl_http_write(const fl_model_var *vars, const fl_tensor *values, size_t n,
                    const char *version);

/* {"error": SENTENCE}; freed with fl_free. */
char *fl_http_error(const char *sentence);

#endif
