/* Fails without words. */
#include "broken_table.h"
BROKEN_PLUGIN((void)table)
