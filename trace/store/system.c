#include "trace/store/system.h"

void system_release(struct system_facts *s)
{
    vec_release(&s->cpus);
    map_release(&s->known);
    *s = (struct system_facts){0};
}

int system_add_cpu(struct system_facts *s, const struct system_cpu *cpu, struct err *e)
{
    bool fresh;
    if (s->cpus.len >= PROCESSORS_MAX && !map_find(&s->known, cpu->cpu)) {
        s->overflow++;
        return 0;
    }
    if (!map_add(&s->known, cpu->cpu, &fresh) || (fresh && !vec_push(&s->cpus, *cpu)))
        return err_no_memory(e, "processors");
    return 0;
}
