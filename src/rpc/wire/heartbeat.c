/* heartbeat.c - whether a peer is silent, judged fairly. */
#include "rpc/wire/heartbeat.h"

#define LOOKS_PER_PING 4
#define EVERY_MIN_MS 1

uint64_t fl_heartbeat_every_ms(uint64_t ping_ms, uint64_t suspect_ms)
{
    uint64_t least = ping_ms < suspect_ms ? ping_ms : suspect_ms;
    uint64_t every = least / LOOKS_PER_PING;

    return every > EVERY_MIN_MS ? every : EVERY_MIN_MS;
}

uint64_t fl_heartbeat_paused_ms(uint64_t due_ms, uint64_t now_ms,
                                uint64_t suspect_ms)
{
    uint64_t late = now_ms > due_ms ? now_ms - due_ms : 0;

    return late > suspect_ms / 2 ? late : 0;
}

void fl_heartbeat_start(fl_heartbeat *p, uint64_t now_ms)
{
    *p = (fl_heartbeat){ .heard_ms = now_ms, .from_ms = now_ms };
}

uint64_t fl_heartbeat_silence_ms(const fl_heartbeat *p, uint64_t now_ms)
{
    return now_ms > p->from_ms ? now_ms - p->from_ms : 0;
}

fl_heartbeat_change fl_heartbeat_check(fl_heartbeat *p, uint64_t heard_ms,
                                       uint64_t paused_ms, uint64_t now_ms,
                                       uint64_t suspect_ms)
{
    bool was_silent = p->is_silent;

    if (heard_ms > p->heard_ms) {
        p->heard_ms = heard_ms;
        p->from_ms = heard_ms > p->from_ms ? heard_ms : p->from_ms;
        p->is_silent = false;
        return was_silent ? FL_HEARTBEAT_HEARD : FL_HEARTBEAT_SAME;
    }
    if (paused_ms) {
        p->from_ms += paused_ms;
        return FL_HEARTBEAT_SAME;
    }
    if (was_silent || fl_heartbeat_silence_ms(p, now_ms) < suspect_ms)
        return FL_HEARTBEAT_SAME;
    p->is_silent = true;
    return FL_HEARTBEAT_SILENT;
}
