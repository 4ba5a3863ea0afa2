/* growth.c - what more members cost: a server its trainers, a trainer its
 * servers, a coordinator its members. What grows with their number is told beside what it is for one. */
#include "growth.h"

int main(void)
{
    growth_servers();
    growth_trainers();
    growth_coordinator();
    return 0;
}
