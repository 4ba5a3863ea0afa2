/* growth.c - what more members cost: a server its trainers, a trainer its
 * servers, a coordinator its members, and rows that are spread over servers. What
 * grows with their number is told beside what it is for one. */
#include "growth.h"

int main(void)
{
    growth_servers();
    growth_trainers();
    growth_coordinator();
    growth_tables();
    return 0;
}
