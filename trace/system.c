#include "trace/system.h"

void system_release(struct system_facts *s)
{
    vec_release(&s->cpus);
    map_release(&s->known);
    *s = (struct system_facts){0};
}

int system_add_cpu(struct system_facts *s, const struct system_cpu *cpu, struct err *e)
{
    bool fresh;
    if (!map_add(&s->known, cpu->cpu, &fresh) || (fresh && !vec_push(&s->cpus, *cpu)))
        return err_no_memory(e, "processors");
    return 0;
}
