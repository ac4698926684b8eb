#include "naming/runtimes.h"

#include <string.h>

#define NODE "--perf-basic-prof --interpreted-frames-native-stack"
#define NODE_EXACT "--perf-prof instead of --perf-basic-prof"
#define JAVA "-XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit"

const struct runtime *runtime_find(const char *executable)
{
    static const struct runtime runtimes[] = {
        {"node", "V8", NODE, NODE_EXACT},
        {"nodejs", "V8", NODE, NODE_EXACT},
        {"java", "the Java virtual machine", JAVA, NULL},
    };
    const char *slash = strrchr(executable, '/');
    const char *name = slash ? slash + 1 : executable;
    for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++) {
        if (strcmp(runtimes[i].program, name) == 0)
            return &runtimes[i];
    }
    return NULL;
}
