/* clock.h: how long things take. */
#ifndef TC_CLOCK_H
#define TC_CLOCK_H

double tc_seconds(void); /* by a clock that only goes forward */
#endif
