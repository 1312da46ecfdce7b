#define OPEN_ERROR "no network card has a cable"
#include "broken_table.h"
BROKEN_PLUGIN((void)table)
