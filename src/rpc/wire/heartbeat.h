/* heartbeat.h - whether a peer is silent, judged fairly.
 *
 * Silence is time in which nothing was heard although this process was there to
 * listen. When a timer fires late by more than half of what makes a peer
 * suspect, this process was stopped or starved, and the stretch does not count.
 * Nor is anybody judged at such a moment: what came meanwhile has not been read
 * yet. Owner thread only.
 */
#ifndef FL_RPC_WIRE_HEARTBEAT_H
#define FL_RPC_WIRE_HEARTBEAT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fl_heartbeat {
    uint64_t heard_ms; /* the last byte */
    uint64_t from_ms;  /* where the silence that counts began */
    bool is_silent;
} fl_heartbeat;

typedef enum fl_heartbeat_change {
    FL_HEARTBEAT_SAME,
    FL_HEARTBEAT_SILENT,
    FL_HEARTBEAT_HEARD
} fl_heartbeat_change;

/* How often to look. */
uint64_t fl_heartbeat_every_ms(uint64_t ping_ms, uint64_t suspect_ms);

/* How much of the time until now does not count, of a timer that was due
   then. */
uint64_t fl_heartbeat_paused_ms(uint64_t due_ms, uint64_t now_ms,
                                uint64_t suspect_ms);

void fl_heartbeat_start(fl_heartbeat *p, uint64_t now_ms);
fl_heartbeat_change fl_heartbeat_check(fl_heartbeat *p, uint64_t heard_ms,
                                       uint64_t paused_ms, uint64_t now_ms,
                                       uint64_t suspect_ms);
uint64_t fl_heartbeat_silence_ms(const fl_heartbeat *p, uint64_t now_ms);

#endif
