#pragma once

/*
 * Plots: values over time. Plots of the program have names, and two names with the same text are
 * one plot. The system's load is one plot, each of its power counters another. The plots of the
 * memory pools are not stored: every reader derives them from the memory events. Source:
 * server/TracyWorker.cpp ProcessPlot*, ProcessSysTime, ProcessSysPower, InsertPlot and
 * HandlePlotName @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "base/spool.h"
#include "base/vec.h"

/* As in the file: server/TracyEvent.hpp PlotType, PlotValueFormatting @ v0.14.0. */
enum plot_type {
    PLOT_USER = 0,
    PLOT_SYSTEM_TIME = 2,
    PLOT_POWER = 3,
};

enum plot_format {
    PLOT_NUMBER = 0,
    PLOT_MEMORY = 1, /* bytes */
    PLOT_PERCENTAGE = 2,
    PLOT_WATT = 3,
};

/* One per value of every plot, in order of arrival. */
struct plot_point {
    int64_t time; /* ns */
    double value;
    uint32_t plot;
    uint32_t unused; /* 0 */
};

struct plot {
    uint64_t name; /* client pointer; 0: system load */
    uint32_t into; /* the plot with the same text that it is merged into, or its own number */
    uint8_t type;  /* enum plot_type */
    uint8_t format;
    uint8_t show_steps, fill;
    uint32_t color;
    bool listed;   /* its position in the file is fixed */
    bool disorder; /* its times are not ascending, so it must be sorted */
    double min, max, sum;
    double latest; /* the newest value; 0: there was none */
    uint64_t count;
    int64_t newest;   /* time of the latest point */
    int64_t reported; /* a power counter: its last report, on the client's clock */
};

struct plots {
    struct column points; /* struct plot_point */
    VEC(struct plot) list;
    VEC(uint32_t) order; /* numbers of listed plots, in file order */
    struct map numbers;  /* client pointer of a name → plot number */
    struct map told;     /* client pointer of a name → its text */
    struct map by_text;  /* text → number of the plot that is listed under it */
    struct map power;    /* client pointer of a counter's name → plot number */
    uint32_t system;     /* 1 + number of the system load's plot, or 0 */
};

/* The spool must outlive the plots. */
void plots_init(struct plots *p, struct spool *spool);
void plots_release(struct plots *p);

/* Adds a value of the program. A value that is not finite is dropped. */
int plots_value(struct plots *p, uint64_t name, int64_t time, double value, struct err *e);

struct plot_config {
    uint8_t format, show_steps, fill;
    uint32_t color; /* 0xRRGGBB */
};

int plots_configure(struct plots *p, uint64_t name, const struct plot_config *config,
                    struct err *e);

/* Adds the system's load in percent. */
int plots_system_time(struct plots *p, int64_t time, double percent, struct err *e);

/*
 * Adds a counter's energy since its last report, in microjoules. The first report only creates the
 * plot; *counted is set for later ones. `clock` is the time on the client's clock, which continues
 * across parts.
 */
int plots_power(struct plots *p, uint64_t name, int64_t time, int64_t clock, uint64_t energy,
                bool *counted, struct err *e);

/* The newest value of a plot of the program, also of the part before; 0: there is none. */
double plots_latest(const struct plots *p, uint64_t name);

/* Sets the text of a name. */
int plots_name(struct plots *p, uint64_t name, uint32_t text, struct err *e);

/* Passes all points, in order of arrival, until one is refused. */
typedef int plots_taker(void *ctx, const struct plot_point *p, struct err *e);
int plots_each(struct plots *p, plots_taker *take, void *ctx, struct err *e);

/* Begins a new part: keeps plots, drops their points. */
void plots_carry(struct plots *p);
