/*
 * Every item of every protocol, encoded with ordinary and extreme values and decoded again: what
 * the event must say is written down here per item, apart from the decoder's own tables. The same
 * items as one short stream per protocol, cut at every byte.
 */

#include "protocol_support.h"

#include <math.h>

#define NO_EVENT (-1)
#define LOCATION_TEXT " line=99 color=1193046 function=\"fn\" file=\"fl\" name=\"nm\""
#define MESSAGE_TEXT " literal={literal} color={color} source={source} severity={severity} text="
#define GPU_REST " delta={cpuDelta} note={noteId} value={value} text="
#define LOCK_TEXT(TYPE, SHARED, THREAD, LOC)                                                       \
    " id={id} type=" TYPE " shared=" SHARED " has_thread=" THREAD " srcloc=" LOC " text="

/*
 * `before` is what must come ahead: 1 single string "one", 2 second string "two", L source
 * location, P call-stack payload, C script frames, T thread's call stack, S serial call stack, N
 * pool name, I image, Z a zone begin, F CallstackFrameSize of one frame. In `text`, {field} is the
 * field's value, {time} nanoseconds, {color} of b, g, r; a field that the protocol's item lacks is
 * 0.
 */
struct expectation {
    const char *item;
    const char *before;
    int kind;
    const char *text;
};

static const struct expectation expectations[] = {
    {"ZoneBegin", "", EVENT_ZONE_BEGIN, "cs=0 thread=7 t={time} srcloc={srcloc}"},
    {"ZoneBegin32", "", EVENT_ZONE_BEGIN, "cs=0 thread=7 t={time} srcloc={srcloc}"},
    {"ZoneBegin16", "", EVENT_ZONE_BEGIN, "cs=0 thread=7 t={time} srcloc={srcloc}"},
    {"ZoneBeginCallstack", "T", EVENT_ZONE_BEGIN, "cs=1 thread=7 t={time} srcloc={srcloc}"},
    {"ZoneBeginCallstack32", "T", EVENT_ZONE_BEGIN, "cs=1 thread=7 t={time} srcloc={srcloc}"},
    {"ZoneBeginCallstack16", "T", EVENT_ZONE_BEGIN, "cs=1 thread=7 t={time} srcloc={srcloc}"},
    {"ZoneBeginAllocSrcLoc", "L", EVENT_ZONE_BEGIN, "cs=0 thread=7 t={time}" LOCATION_TEXT},
    {"ZoneBeginAllocSrcLocCallstack", "TL", EVENT_ZONE_BEGIN,
     "cs=1 thread=7 t={time}" LOCATION_TEXT},
    {"ZoneEnd", "", EVENT_ZONE_END, "cs=0 thread=7 t={time}"},
    {"ZoneEnd32", "", EVENT_ZONE_END, "cs=0 thread=7 t={time}"},
    {"ZoneEnd16", "", EVENT_ZONE_END, "cs=0 thread=7 t={time}"},
    {"ZoneText", "1", EVENT_ZONE_TEXT, "cs=0 thread=7 t=0 text=\"one\""},
    {"ZoneName", "1", EVENT_ZONE_NAME, "cs=0 thread=7 t=0 text=\"one\""},
    {"ZoneColor", "", EVENT_ZONE_COLOR, "cs=0 thread=7 t=0 number={color}"},
    {"ZoneValue", "", EVENT_ZONE_VALUE, "cs=0 thread=7 t=0 number={value}"},
    {"ZoneValidation", "", EVENT_ZONE_VALIDATION, "cs=0 thread=7 t=0 number={id}"},
    {"Message", "1", EVENT_MESSAGE, "cs=0 thread=7 t={time}" MESSAGE_TEXT "\"one\""},
    {"MessageColor", "1", EVENT_MESSAGE, "cs=0 thread=7 t={time}" MESSAGE_TEXT "\"one\""},
    {"MessageCallstack", "T1", EVENT_MESSAGE, "cs=1 thread=7 t={time}" MESSAGE_TEXT "\"one\""},
    {"MessageColorCallstack", "T1", EVENT_MESSAGE, "cs=1 thread=7 t={time}" MESSAGE_TEXT "\"one\""},
    {"MessageLiteral", "", EVENT_MESSAGE, "cs=0 thread=7 t={time}" MESSAGE_TEXT "\"\""},
    {"MessageLiteralColor", "", EVENT_MESSAGE, "cs=0 thread=7 t={time}" MESSAGE_TEXT "\"\""},
    {"MessageLiteralCallstack", "T", EVENT_MESSAGE, "cs=1 thread=7 t={time}" MESSAGE_TEXT "\"\""},
    {"MessageLiteralColorCallstack", "T", EVENT_MESSAGE,
     "cs=1 thread=7 t={time}" MESSAGE_TEXT "\"\""},
    {"MessageAppInfo", "1", EVENT_APP_INFO, "cs=0 thread=0 t={time} text=\"one\""},
    {"CallstackSerial", "P", NO_EVENT, ""},
    {"Callstack", "P", NO_EVENT, ""},
    {"CallstackAlloc", "PC", NO_EVENT, ""},
    {"CallstackSample", "P", EVENT_SAMPLE, "cs=1 thread={thread} t={sample}"},
    {"CallstackSample32", "P", EVENT_SAMPLE, "cs=1 thread={thread} t={sample}"},
    {"CallstackSample16", "P", EVENT_SAMPLE, "cs=1 thread={thread} t={sample}"},
    {"CallstackSampleContextSwitch", "P", EVENT_SWITCH_SAMPLE, "cs=1 thread={thread} t={sample}"},
    {"CallstackSampleContextSwitch32", "P", EVENT_SWITCH_SAMPLE, "cs=1 thread={thread} t={sample}"},
    {"CallstackSampleContextSwitch16", "P", EVENT_SWITCH_SAMPLE, "cs=1 thread={thread} t={sample}"},
    {"HwSampleCpuCycle", "", EVENT_HW_SAMPLE,
     "cs=0 thread=0 t={sample} ip={ip} counter=0 no_time={notime}"},
    {"HwSampleInstructionRetired", "", EVENT_HW_SAMPLE,
     "cs=0 thread=0 t={sample} ip={ip} counter=1 no_time={notime}"},
    {"HwSampleCacheReference", "", EVENT_HW_SAMPLE,
     "cs=0 thread=0 t={sample} ip={ip} counter=2 no_time={notime}"},
    {"HwSampleCacheMiss", "", EVENT_HW_SAMPLE,
     "cs=0 thread=0 t={sample} ip={ip} counter=3 no_time={notime}"},
    {"HwSampleBranchRetired", "", EVENT_HW_SAMPLE,
     "cs=0 thread=0 t={sample} ip={ip} counter=4 no_time={notime}"},
    {"HwSampleBranchMiss", "", EVENT_HW_SAMPLE,
     "cs=0 thread=0 t={sample} ip={ip} counter=5 no_time={notime}"},
    {"FrameMarkMsg", "", EVENT_FRAME_MARK, "cs=0 thread=0 t={time} name={name}"},
    {"FrameMarkMsgStart", "", EVENT_FRAME_START, "cs=0 thread=0 t={time} name={name}"},
    {"FrameMarkMsgEnd", "", EVENT_FRAME_END, "cs=0 thread=0 t={time} name={name}"},
    {"FrameVsync", "", EVENT_FRAME_VSYNC, "cs=0 thread=0 t={time} name={id}"},
    {"FrameImage", "I", EVENT_FRAME_IMAGE,
     "cs=0 thread=0 t=0 frame={frame} w={w} h={h} flip={flip} bytes=16"},
    {"LockAnnounce", "", EVENT_LOCK_ANNOUNCE,
     "cs=0 thread=0 t={time}" LOCK_TEXT("{type}", "0", "0", "{lckloc}") "\"\""},
    {"LockTerminate", "", EVENT_LOCK_TERMINATE,
     "cs=0 thread=0 t={time}" LOCK_TEXT("0", "0", "0", "0") "\"\""},
    {"LockWait", "", EVENT_LOCK_WAIT,
     "cs=0 thread={thread} t={time}" LOCK_TEXT("0", "0", "1", "0") "\"\""},
    {"LockObtain", "", EVENT_LOCK_OBTAIN,
     "cs=0 thread={thread} t={time}" LOCK_TEXT("0", "0", "1", "0") "\"\""},
    {"LockRelease", "", EVENT_LOCK_RELEASE,
     "cs=0 thread=0 t={time}" LOCK_TEXT("0", "0", "0", "0") "\"\""},
    {"LockSharedWait", "", EVENT_LOCK_WAIT,
     "cs=0 thread={thread} t={time}" LOCK_TEXT("0", "1", "1", "0") "\"\""},
    {"LockSharedObtain", "", EVENT_LOCK_OBTAIN,
     "cs=0 thread={thread} t={time}" LOCK_TEXT("0", "1", "1", "0") "\"\""},
    {"LockSharedRelease", "", EVENT_LOCK_RELEASE,
     "cs=0 thread={thread} t={time}" LOCK_TEXT("0", "1", "1", "0") "\"\""},
    {"LockMark", "", EVENT_LOCK_MARK,
     "cs=0 thread={thread} t=0" LOCK_TEXT("0", "0", "1", "{srcloc}") "\"\""},
    {"LockName", "1", EVENT_LOCK_NAME, "cs=0 thread=0 t=0" LOCK_TEXT("0", "0", "0", "0") "\"one\""},
    {"MemAlloc", "", EVENT_MEM_ALLOC, "cs=0 thread={thread} t={time} pool=0 ptr={ptr} size={size}"},
    {"MemAllocNamed", "N", EVENT_MEM_ALLOC,
     "cs=0 thread={thread} t={time} pool=5555 ptr={ptr} size={size}"},
    {"MemAllocCallstack", "S", EVENT_MEM_ALLOC,
     "cs=1 thread={thread} t={time} pool=0 ptr={ptr} size={size}"},
    {"MemAllocCallstackNamed", "SN", EVENT_MEM_ALLOC,
     "cs=1 thread={thread} t={time} pool=5555 ptr={ptr} size={size}"},
    {"MemFree", "", EVENT_MEM_FREE, "cs=0 thread={thread} t={time} pool=0 ptr={ptr} size=0"},
    {"MemFreeNamed", "N", EVENT_MEM_FREE,
     "cs=0 thread={thread} t={time} pool=5555 ptr={ptr} size=0"},
    {"MemFreeCallstack", "S", EVENT_MEM_FREE,
     "cs=1 thread={thread} t={time} pool=0 ptr={ptr} size=0"},
    {"MemFreeCallstackNamed", "SN", EVENT_MEM_FREE,
     "cs=1 thread={thread} t={time} pool=5555 ptr={ptr} size=0"},
    {"MemDiscard", "", EVENT_MEM_DISCARD, "cs=0 thread={thread} t={time} pool={name} ptr=0 size=0"},
    {"MemDiscardCallstack", "S", EVENT_MEM_DISCARD,
     "cs=1 thread={thread} t={time} pool={name} ptr=0 size=0"},
    {"MemNamePayload", "", NO_EVENT, ""},
    {"GpuNewContext", "", EVENT_GPU_CONTEXT,
     "cs=0 thread={thread} t={time} context={context} gpu={gpuTime} period={period} flags={flags} "
     "type={type}"},
    {"GpuContextName", "1", EVENT_GPU_CONTEXT_NAME,
     "cs=0 thread=0 t=0 context={context} query=0 gpu=0" GPU_REST "\"one\""},
    {"GpuZoneBegin", "", EVENT_GPU_ZONE_BEGIN,
     "cs=0 thread={thread} t={time} context={context} query={queryId} serial=0 srcloc={srcloc}"},
    {"GpuZoneBeginCallstack", "T", EVENT_GPU_ZONE_BEGIN,
     "cs=1 thread={thread} t={time} context={context} query={queryId} serial=0 caller=7 "
     "srcloc={srcloc}"},
    {"GpuZoneBeginAllocSrcLoc", "L", EVENT_GPU_ZONE_BEGIN,
     "cs=0 thread={thread} t={time} context={context} query={queryId} serial=0" LOCATION_TEXT},
    {"GpuZoneBeginAllocSrcLocCallstack", "TL", EVENT_GPU_ZONE_BEGIN,
     "cs=1 thread={thread} t={time} context={context} query={queryId} serial=0 "
     "caller=7" LOCATION_TEXT},
    {"GpuZoneEnd", "", EVENT_GPU_ZONE_END,
     "cs=0 thread={thread} t={time} context={context} query={queryId} serial=0"},
    {"GpuZoneBeginSerial", "", EVENT_GPU_ZONE_BEGIN,
     "cs=0 thread={thread} t={time} context={context} query={queryId} serial=1 srcloc={srcloc}"},
    {"GpuZoneBeginCallstackSerial", "S", EVENT_GPU_ZONE_BEGIN,
     "cs=1 thread={thread} t={time} context={context} query={queryId} serial=1 srcloc={srcloc}"},
    {"GpuZoneBeginAllocSrcLocSerial", "L", EVENT_GPU_ZONE_BEGIN,
     "cs=0 thread={thread} t={time} context={context} query={queryId} serial=1" LOCATION_TEXT},
    {"GpuZoneBeginAllocSrcLocCallstackSerial", "SL", EVENT_GPU_ZONE_BEGIN,
     "cs=1 thread={thread} t={time} context={context} query={queryId} serial=1" LOCATION_TEXT},
    {"GpuZoneEndSerial", "", EVENT_GPU_ZONE_END,
     "cs=0 thread={thread} t={time} context={context} query={queryId} serial=1"},
    {"GpuTime", "", EVENT_GPU_TIME,
     "cs=0 thread=0 t=0 context={context} query={queryId} gpu={gpuTime}" GPU_REST "\"\""},
    {"GpuCalibration", "", EVENT_GPU_CALIBRATION,
     "cs=0 thread=0 t={time} context={context} query=0 gpu={gpuTime}" GPU_REST "\"\""},
    {"GpuTimeSync", "", EVENT_GPU_TIME_SYNC,
     "cs=0 thread=0 t={time} context={context} query=0 gpu={gpuTime}" GPU_REST "\"\""},
    {"GpuAnnotationName", "1", EVENT_GPU_NOTE_NAME,
     "cs=0 thread=0 t=0 context={context} query=0 gpu=0" GPU_REST "\"one\""},
    {"GpuZoneAnnotation", "", EVENT_GPU_NOTE,
     "cs=0 thread={thread} t=0 context={context} query={queryId} gpu=0" GPU_REST "\"\""},
    {"PlotDataInt", "", EVENT_PLOT, "cs=0 thread=0 t={time} name={name} value={plotint}"},
    {"PlotDataFloat", "", EVENT_PLOT, "cs=0 thread=0 t={time} name={name} value={val}"},
    {"PlotDataDouble", "", EVENT_PLOT, "cs=0 thread=0 t={time} name={name} value={val}"},
    {"PlotConfig", "", EVENT_PLOT_CONFIG,
     "cs=0 thread=0 t=0 name={name} type={type} step={step} fill={fill} color={rgb}"},
    {"ContextSwitch", "", EVENT_CONTEXT_SWITCH,
     "cs=0 thread=0 t={time} old={oldThread} new={newThread} cpu=1{cpu} reason={reason} "
     "state={state} cstate={previousCState} prio={newThreadPriority},{oldThreadPriority} "
     "adjust=0,0"},
    {"ThreadWakeup", "", EVENT_THREAD_WAKEUP,
     "cs=0 thread={thread} t={time} old=0 new={thread} cpu={has_cpu}{cpu} reason=0 state=0 "
     "cstate=0 prio=0,0 adjust={adjustReason},{adjustIncrement}"},
    {"TidToPid", "", EVENT_TID_TO_PID, "cs=0 thread=0 t=0 tid={tid} pid={pid}"},
    {"ThreadContext", "", NO_EVENT, ""},
    {"ThreadGroupHint", "", EVENT_THREAD_GROUP_HINT,
     "cs=0 thread={thread} t=0 fiber=0 on={thread} hint={groupHint}"},
    {"FiberEnter", "", EVENT_FIBER_ENTER,
     "cs=0 thread=4294967296 t={time} fiber={fiber} on={thread} hint={groupHint}"},
    {"FiberLeave", "", EVENT_FIBER_LEAVE,
     "cs=0 thread={thread} t={time} fiber=0 on={thread} hint=0"},
    {"SectionSetup", "1", EVENT_SECTION_SETUP,
     "cs=0 thread=0 t=0 id=0 category={category} text=\"one\""},
    {"SectionEnter", "1", EVENT_SECTION_ENTER,
     "cs=0 thread=0 t={time} id={id} category={category} text=\"one\""},
    {"SectionLeave", "", EVENT_SECTION_LEAVE,
     "cs=0 thread=0 t={time} id={id} category=0 text=\"\""},
    {"SysTimeReport", "", EVENT_SYS_TIME, "cs=0 thread=0 t={time} value={sysTime}"},
    {"SysPowerReport", "", EVENT_SYS_POWER, "cs=0 thread=0 t={time} name={name} delta={delta}"},
    {"CpuTopology", "", EVENT_CPU_TOPOLOGY,
     "cs=0 thread=0 t=0 package={package} die={die} core={core} cpu={thread}"},
    {"ParamSetup", "", EVENT_PARAM,
     "cs=0 thread=0 t=0 id={idx} name={name} type={ptype} value={val}"},
    {"CrashReport", "T", EVENT_CRASH_REPORT, "cs=1 thread=7 t={time} text={text}"},
    {"Crash", "", EVENT_CRASH, "cs=0 thread=0 t=0"},
    {"Terminate", "", EVENT_TERMINATE, "cs=0 thread=0 t=0"},
    {"KeepAlive", "", EVENT_KEEP_ALIVE, "cs=0 thread=0 t=0"},
    {"SingleStringData", "", NO_EVENT, ""},
    {"SingleStringData8", "", NO_EVENT, ""},
    {"SecondStringData", "", NO_EVENT, ""},
    {"SecondStringData8", "", NO_EVENT, ""},
    {"SourceLocationPayload", "", NO_EVENT, ""},
    {"CallstackPayload", "", NO_EVENT, ""},
    {"CallstackAllocPayload", "", NO_EVENT, ""},
    {"FrameImageData", "", NO_EVENT, ""},
    {"SourceLocation", "Z", EVENT_SOURCE_LOCATION,
     "cs=0 thread=0 t=0 pointer=4242 name={name} function={function} file={file} line={line} "
     "color={color}"},
    {"CallstackFrameSize", "1", NO_EVENT, ""},
    {"CallstackFrame", "F12", EVENT_CALLSTACK_FRAME,
     "cs=0 thread=0 t=0 address=909 skip=0 image=\"one\" [line={line} symbol={symAddr}+{symLen} "
     "function=\"one\" file=\"two\"]"},
    {"SymbolInformation", "1", EVENT_SYMBOL,
     "cs=0 thread=0 t=0 address={symAddr} line={line} file=\"one\""},
    {"AckServerQueryNoop", "", NO_EVENT, ""},
    {"AckSymbolCodeNotAvailable", "", NO_EVENT, ""},
    {"AckSourceCodeNotAvailable", "", EVENT_SOURCE_CODE_MISSING,
     "cs=0 thread=0 t=0 key={id} text=\"\""},
    {"StringData", "", EVENT_STRING, "cs=0 thread=0 t=0 key={ptr} text=\"tail\""},
    {"ThreadName", "", EVENT_THREAD_NAME, "cs=0 thread=0 t=0 key={ptr} text=\"tail\""},
    {"PlotName", "", EVENT_PLOT_NAME, "cs=0 thread=0 t=0 key={ptr} text=\"tail\""},
    {"FrameName", "", EVENT_FRAME_NAME, "cs=0 thread=0 t=0 key={ptr} text=\"tail\""},
    {"FiberName", "", EVENT_FIBER_NAME, "cs=0 thread=0 t=0 key={ptr} text=\"tail\""},
    {"ExternalName", "", EVENT_EXTERNAL_NAME, "cs=0 thread=0 t=0 key={ptr} text=\"tail\""},
    {"ExternalThreadName", "", EVENT_EXTERNAL_THREAD_NAME,
     "cs=0 thread=0 t=0 key={ptr} text=\"tail\""},
    {"SymbolCode", "", EVENT_SYMBOL_CODE, "cs=0 thread=0 t=0 key={ptr} text=\"tail\""},
    {"SourceCode", "", EVENT_SOURCE_CODE, "cs=0 thread=0 t=0 key={ptr} text=\"tail\""},
};

#define FIELDS_MAX 16

/* An item with the values of its fields. */
struct sample {
    const struct wire_version *v;
    const struct wire_item_info *info;
    const struct expectation *want;
    struct encoder_field fields[FIELDS_MAX];
};

static const struct expectation *find_expectation(const char *item)
{
    for (size_t i = 0; i < sizeof expectations / sizeof *expectations; i++)
        if (strcmp(expectations[i].item, item) == 0)
            return &expectations[i];
    return NULL;
}

static const struct encoder_field *field(const struct sample *s, const char *name)
{
    for (unsigned i = 0; i < s->info->field_count; i++)
        if (strcmp(s->fields[i].name, name) == 0)
            return &s->fields[i];
    return NULL;
}

static enum wire_type type_of(const struct sample *s, const char *name)
{
    for (unsigned i = 0; i < s->info->field_count; i++)
        if (strcmp(s->info->fields[i].name, name) == 0)
            return (enum wire_type)s->info->fields[i].type;
    return WIRE_U8;
}

static uint64_t bits(const struct sample *s, const char *name)
{
    const struct encoder_field *f = field(s, name);
    return f ? f->bits : 0;
}

/* ---- values */

static uint64_t random_bits(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    return z ^ z >> 27;
}

/* Kinds of values that a round gives all fields: 0, all ones, only the sign bit, then random. */
static uint64_t integer_value(unsigned round, unsigned size, uint64_t *seed)
{
    uint64_t mask = size == 8 ? UINT64_MAX : ((uint64_t)1 << size * 8) - 1;
    switch (round) {
    case 0:
        return 0;
    case 1:
        return mask;
    case 2:
        return (uint64_t)1 << (size * 8 - 1);
    default:
        return random_bits(seed) & mask;
    }
}

/* What the item's meaning allows: enumerations, images, GPU clocks. */
static uint64_t restrict_value(const struct sample *s, const char *name, uint64_t v)
{
    static const struct {
        const char *item, *field;
        uint64_t below;
    } limits[] = {
        {"LockAnnounce", "type", 2},
        {"PlotConfig", "type", 4},
        {"ParamSetup", "type", 3},
        {"ParamSetup", "isBool", 3},
    };
    const char *item = s->info->name;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (strcmp(limits[i].item, item) == 0 && strcmp(limits[i].field, name) == 0)
            return v % limits[i].below;
    if (strcmp(item, "FrameImage") == 0 && strcmp(name, "w") == 0)
        return 8;
    if (strcmp(item, "FrameImage") == 0 && strcmp(name, "h") == 0)
        return 4;
    if (strcmp(item, "CallstackFrameSize") == 0 && strcmp(name, "size") == 0)
        return 1;
    if (strcmp(name, "metadata") == 0)
        return (v >> 4) % 6 << 4 | v % 2;
    return v;
}

static void fill_sample(struct sample *s, unsigned round, uint64_t *seed)
{
    static const double reals[] = {0, 3.4e38, -1.25, 1e-30};
    for (unsigned i = 0; i < s->info->field_count; i++) {
        const struct wire_field *f = &s->info->fields[i];
        struct encoder_field *to = &s->fields[i];
        *to = (struct encoder_field){.name = f->name};
        if (f->type == WIRE_F32 || f->type == WIRE_F64) {
            to->real = reals[round % 4];
            if (strcmp(f->name, "period") == 0)
                to->real = 0.75 + round;
            continue;
        }
        to->bits = integer_value(round, wire_type_size((enum wire_type)f->type), seed);
        to->bits = restrict_value(s, f->name, to->bits);
        if (f->type == WIRE_U64_TAG_LOW)
            to->bits = (to->bits & ~0xffull) | restrict_value(s, "metadata", to->bits & 0xff);
        else if (f->type == WIRE_U64_TAG_HIGH)
            to->bits = to->bits >> 8 | restrict_value(s, "metadata", to->bits >> 56) << 56;
    }
}

/* ---- what the event must say */

static const struct welcome clock_of_test = {
    .timer_mul = 0.5, .init_begin = 1000, .cpu_arch = ARCH_X64};

static int64_t nanoseconds(uint64_t ticks)
{
    double ns = (double)(int64_t)(ticks - 1000) * 0.5;
    return ns >= 9223372036854775808.0 ? INT64_MAX : (int64_t)ns;
}

/* The tick value that a time field stands for, every reference being 0 before it. */
static uint64_t ticks_of(const struct sample *s)
{
    uint64_t v = field(s, "time") ? bits(s, "time") : bits(s, "cpuTime");
    const char *item = s->info->name;
    size_t n = strlen(item);
    bool compact =
        s->v->protocol >= 78 && (strncmp(item, "CallstackSample", 15) == 0 ||
                                 (strncmp(item, "Zone", 4) == 0 && !strstr(item, "AllocSrcLoc")));
    if (!compact || strcmp(item + n - 2, "16") == 0)
        return v;
    if (strcmp(item + n - 2, "32") == 0)
        return v + 65536;
    return (int64_t)v < 0 ? v : v + 65536 + 4294967296;
}

static void put_metadata(struct buf *b, const struct sample *s, bool source)
{
    uint64_t meta = 0x20;
    if (field(s, "metadata"))
        meta = bits(s, "metadata");
    else if (type_of(s, "textAndMetadata") == WIRE_U64_TAG_LOW)
        meta = bits(s, "textAndMetadata") & 0xff;
    else if (type_of(s, "textAndMetadata") == WIRE_U64_TAG_HIGH)
        meta = bits(s, "textAndMetadata") >> 56;
    buf_printf(b, "%u", (unsigned)(source ? meta & 15 : meta >> 4));
}

static uint64_t literal_of(const struct sample *s)
{
    uint64_t v = bits(s, "textAndMetadata");
    if (type_of(s, "textAndMetadata") == WIRE_U64_TAG_LOW)
        return v >> 8;
    if (field(s, "textAndMetadata"))
        return v & 0xffffffffffffffull;
    return bits(s, "text");
}

static unsigned plot_color_of(const struct sample *s)
{
    unsigned c = (unsigned)(bits(s, "color") & 0xffffff);
    return s->v->facts.plot_color_rgb ? (c & 0xff) << 16 | (c & 0xff00) | c >> 16 : c;
}

/* Names that stand for more than one field, or for a field that was renamed. */
static bool put_special(struct buf *b, const struct sample *s, const char *name)
{
    if (strcmp(name, "time") == 0)
        buf_printf(b, "%" PRId64, nanoseconds(ticks_of(s)));
    else if (strcmp(name, "sample") == 0)
        buf_printf(b, "%" PRId64, ticks_of(s) ? nanoseconds(ticks_of(s)) : 0);
    else if (strcmp(name, "notime") == 0)
        buf_printf(b, "%d", ticks_of(s) == 0);
    else if (strcmp(name, "color") == 0)
        buf_printf(b, "%u",
                   field(s, "b") ? (unsigned)(bits(s, "r") << 16 | bits(s, "g") << 8 | bits(s, "b"))
                                 : 0xffffffu);
    else if (strcmp(name, "rgb") == 0)
        buf_printf(b, "%u", plot_color_of(s));
    else if (strcmp(name, "source") == 0 || strcmp(name, "severity") == 0)
        put_metadata(b, s, name[1] == 'o');
    else if (strcmp(name, "literal") == 0)
        buf_printf(b, "%" PRIu64, literal_of(s));
    else if (strcmp(name, "plotint") == 0)
        buf_printf(b, "%.17g", (double)(int64_t)bits(s, "val"));
    else if (strcmp(name, "ptype") == 0)
        buf_printf(b, "%u", (unsigned)(bits(s, "type") | bits(s, "isBool")));
    else if (strcmp(name, "reason") == 0 && field(s, "oldThreadWaitReason"))
        buf_printf(b, "%u", (unsigned)bits(s, "oldThreadWaitReason"));
    else if (strcmp(name, "state") == 0 && field(s, "oldThreadState"))
        buf_printf(b, "%u", (unsigned)bits(s, "oldThreadState"));
    else if (strcmp(name, "has_cpu") == 0)
        buf_printf(b, "%d", field(s, "cpu") != NULL);
    else
        return false;
    return true;
}

static void put_value(struct buf *b, const struct sample *s, const char *name)
{
    const struct encoder_field *f = field(s, name);
    if (put_special(b, s, name))
        return;
    switch (f ? type_of(s, name) : WIRE_U8) {
    case WIRE_F32:
        buf_printf(b, strcmp(name, "val") == 0 ? "%.17g" : "%.9g", (double)(float)f->real);
        return;
    case WIRE_F64:
        buf_printf(b, "%.17g", f->real);
        return;
    case WIRE_I8:
        buf_printf(b, "%d", (int8_t)f->bits);
        return;
    case WIRE_I32:
        buf_printf(b, "%d", (int32_t)f->bits);
        return;
    case WIRE_I64:
        buf_printf(b, "%" PRId64, (int64_t)f->bits);
        return;
    default:
        buf_printf(b, "%" PRIu64, f ? f->bits : 0);
    }
}

static void expected_text(struct buf *b, const struct sample *s)
{
    buf_printf(b, "%d ", s->want->kind);
    for (const char *p = s->want->text; *p; p++) {
        if (*p != '{') {
            buf_put(b, p, 1);
            continue;
        }
        char name[32];
        size_t n = strcspn(p, "}") - 1;
        assert_true(n < sizeof name);
        memcpy(name, p + 1, n);
        name[n] = 0;
        put_value(b, s, name);
        p += n + 1;
    }
}

/* ---- items ahead, and tails */

#define LOCATION "\x56\x34\x12\0\x63\0\0\0fn\0fl\0nm"
#define STACK "\x10\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\x80"
#define SCRIPT "\x01\x07\0\0\0\x02\0fn\x03\0fil"
#define BYTES(S) ((struct view){(S), sizeof(S) - 1})

static void put_ahead(const struct wire_version *v, struct buf *b, char what)
{
    static const char image[16] = {1};
    switch (what) {
    case '1':
    case '2':
        put_string(v, b, what == '2', view_of(what == '1' ? "one" : "two"));
        return;
    case 'L':
        put_item(v, b, "SourceLocationPayload", BYTES(LOCATION), NULL);
        return;
    case 'C':
        put_item(v, b, "CallstackAllocPayload", BYTES(SCRIPT), NULL);
        return;
    case 'P':
    case 'T':
    case 'S':
        put_item(v, b, "CallstackPayload", BYTES(STACK), NULL);
        if (what != 'P')
            put_item(v, b, what == 'T' ? "Callstack" : "CallstackSerial", (struct view){0}, NULL);
        return;
    case 'N':
        put_item(v, b, "MemNamePayload", (struct view){0},
                 (struct encoder_field[]){ENC_INT("name", 5555), {.name = NULL}});
        return;
    case 'I':
        put_item(v, b, "FrameImageData", (struct view){image, sizeof image}, NULL);
        return;
    case 'Z':
        put_item(v, b, "ZoneBegin", (struct view){0},
                 (struct encoder_field[]){ENC_INT("srcloc", 4242), {.name = NULL}});
        return;
    case 'F':
        put_string(v, b, false, view_of("one"));
        put_item(v, b, "CallstackFrameSize", (struct view){0},
                 (struct encoder_field[]){ENC_INT("ptr", 909), ENC_INT("size", 1), {.name = NULL}});
        return;
    default:
        fail_msg("what is %c?", what);
    }
}

static struct view tail_for(const struct wire_version *v, unsigned id)
{
    static char long_text[256];
    const char *name = v->info[id].name;
    if (v->items[id].tail == WIRE_TAIL_NONE)
        return (struct view){0};
    if (strcmp(name, "SourceLocationPayload") == 0)
        return BYTES(LOCATION);
    if (strcmp(name, "CallstackPayload") == 0)
        return BYTES(STACK);
    if (strcmp(name, "CallstackAllocPayload") == 0)
        return BYTES(SCRIPT);
    memset(long_text, 'x', sizeof long_text);
    if (v->items[id].tail == WIRE_TAIL_16_PLUS_256)
        return (struct view){long_text, sizeof long_text};
    return view_of("tail");
}

static void put_sample(struct buf *b, struct sample *s, unsigned id)
{
    struct err e = {0};
    for (const char *p = s->want->before; *p; p++)
        put_ahead(s->v, b, *p);
    if (encoder_write_item(s->v, b, s->info->name, s->fields, s->info->field_count,
                           tail_for(s->v, id), &e) < 0)
        fail_msg("%s", e.text);
}

/* ---- tests */

static void check_round_trip(const struct wire_version *v, unsigned id, unsigned round,
                             uint64_t *seed)
{
    struct sample s = {.v = v, .info = &v->info[id], .want = find_expectation(v->info[id].name)};
    struct rig r;
    struct buf b = {0}, want = {0};
    assert_true(s.info->field_count <= FIELDS_MAX);
    if (!s.want)
        fail_msg("no expectation for item %s", s.info->name);
    fill_sample(&s, round, seed);
    rig_init(&r, v->protocol, &clock_of_test);
    PUT(&r, &b, "ThreadContext", (struct view){0}, ENC_INT("thread", 7));
    for (const char *p = s.want->before; *p; p++)
        put_ahead(v, &b, *p);
    rig_decode(&r, &b);
    size_t before = r.log.chain.len;
    s.want = &(struct expectation){s.want->item, "", s.want->kind, s.want->text};
    put_sample(&b, &s, id);
    rig_decode(&r, &b); /* what came ahead lies in another frame, so it was kept */
    if (s.want->kind == NO_EVENT) {
        assert_int_equal(r.log.chain.len, before);
    } else {
        expected_text(&want, &s);
        assert_int_equal(r.log.chain.len, before + 1);
        if (strcmp(rig_line(&r), buf_str(&want)) != 0)
            fail_msg("protocol %u, %s:\n  got  %s\n  want %s", v->protocol, s.info->name,
                     rig_line(&r), buf_str(&want));
    }
    buf_release(&b);
    buf_release(&want);
    rig_release(&r);
}

static bool is_sent(const struct wire_version *v, unsigned id)
{
    return v->items[id].kind != WIRE_NONE;
}

static void test_round_trips(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (unsigned i = 0; i < wire_version_count; i++)
        for (unsigned id = 0; id < wire_versions[i].item_count; id++)
            for (unsigned round = 0; round < 6 && is_sent(&wire_versions[i], id); round++)
                check_round_trip(&wire_versions[i], id, round, &seed);
}

/* Deltas around the limits of each form, written as the client writes them. */
static void test_time_boundaries(void **state)
{
    (void)state;
    static const struct {
        int64_t delta;
        const char *form; /* from 78 on */
    } cases[] = {
        {0, "16"},
        {1, "16"},
        {65535, "16"},
        {65536, "32"},
        {65537, "32"},
        {65536 + 4294967295, "32"},
        {65536 + 4294967296, ""},
        {INT64_MAX, ""},
        {-1, ""},
        {-65536, ""},
        {INT64_MIN, ""},
    };
    static const char *const items[] = {"ZoneEnd", "CallstackSample"};
    for (unsigned i = 0; i < wire_version_count; i++) {
        for (size_t k = 0; k < 2 * sizeof cases / sizeof *cases; k++) {
            const struct wire_version *v = &wire_versions[i];
            int64_t delta = cases[k / 2].delta;
            uint64_t value;
            char name[64], want[96];
            const char *form = encoder_time_form(v, items[k % 2], delta, &value);
            assert_string_equal(form, v->protocol >= 78 ? cases[k / 2].form : "");
            snprintf(name, sizeof name, "%s%s", items[k % 2], form);
            struct rig r;
            struct buf b = {0};
            rig_init(&r, v->protocol, NULL);
            if (k % 2)
                put_ahead(v, &b, 'P');
            put_item(v, &b, name, (struct view){0},
                     (struct encoder_field[]){ENC_INT("time", value), {.name = NULL}});
            rig_decode(&r, &b);
            /* doubles hold 53 bits, and the limits saturate */
            int64_t ns = delta == INT64_MAX ? INT64_MAX : delta;
            snprintf(want, sizeof want, " t=%" PRId64, ns);
            if (!strstr(rig_line(&r), want))
                fail_msg("protocol %u, %s, delta %" PRId64 ": %s", v->protocol, name, delta,
                         rig_line(&r));
            buf_release(&b);
            rig_release(&r);
        }
    }
}

/* One stream with every item of a protocol; *ends gets the offset behind each item. */
static void make_stream(const struct wire_version *v, struct buf *b, struct buf *ends)
{
    uint64_t seed = v->protocol;
    for (unsigned id = 0; id < v->item_count; id++) {
        struct sample s = {
            .v = v, .info = &v->info[id], .want = find_expectation(v->info[id].name)};
        /* A payload or string by itself would be left waiting; others bring each of them. */
        if (!is_sent(v, id) || (v->items[id].tail && s.want->kind == NO_EVENT) ||
            v->items[id].kind == WIRE_MEM_NAME || v->items[id].kind == WIRE_CALLSTACK_FRAME_SIZE)
            continue;
        fill_sample(&s, 3, &seed);
        put_sample(b, &s, id);
        buf_u32(ends, (uint32_t)b->len);
    }
    assert_false(b->failed || ends->failed);
}

/* Offsets at which items end, found by walking the stream with the list's sizes. */
static bool is_item_end(const struct wire_version *v, const struct buf *b, size_t cut)
{
    size_t at = 0;
    while (at < cut) {
        const struct wire_item *it = &v->items[b->data[at]];
        const uint8_t *tail = b->data + at + it->size;
        at += it->size;
        switch (it->tail) {
        case WIRE_TAIL_8:
            at += 1 + (size_t)*tail;
            break;
        case WIRE_TAIL_16:
            at += 2 + (size_t)load_u16(tail);
            break;
        case WIRE_TAIL_16_PLUS_256:
            at += 2 + 256 + (size_t)load_u16(tail);
            break;
        case WIRE_TAIL_32:
            at += 4 + (size_t)load_u32(tail);
            break;
        default:
            break;
        }
    }
    return at == cut;
}

static void check_prefix(const struct rig *part, const struct rig *whole)
{
    size_t n = part->log.chain.len;
    assert_true(n <= whole->log.chain.len);
    if (n > 0)
        assert_int_equal(part->log.chain.at[n - 1], whole->log.chain.at[n - 1]);
}

/*
 * The frame ends after `cut` bytes: an error that names the place exactly when that is within an
 * item, and the events before it are the same as without the cut.
 */
static void test_cut_items(void **state)
{
    (void)state;
    for (unsigned i = 0; i < wire_version_count; i++) {
        const struct wire_version *v = &wire_versions[i];
        struct buf b = {0}, ends = {0};
        struct rig whole;
        make_stream(v, &b, &ends);
        rig_init(&whole, v->protocol, NULL);
        if (decoder_frame(whole.decoder, b.data, b.len, &whole.err) < 0)
            fail_msg("%s", whole.err.text);
        assert_false(decoder_in_group(whole.decoder));
        for (size_t cut = 1; cut < b.len; cut++) {
            struct rig r;
            char place[64];
            uint8_t *copy = malloc(cut); /* so that a read past the cut shows */
            assert_non_null(copy);
            memcpy(copy, b.data, cut);
            rig_init(&r, v->protocol, NULL);
            bool whole_items = is_item_end(v, &b, cut);
            int rc = decoder_frame(r.decoder, copy, cut, &r.err);
            assert_int_equal(rc, whole_items ? 0 : -1);
            if (rc < 0) {
                snprintf(place, sizeof place, "protocol %u, frame 1, offset ", v->protocol);
                assert_int_equal(r.err.code, ERR_INPUT);
                assert_true(strncmp(r.err.text, place, strlen(place)) == 0);
                assert_int_equal(decoder_frame(r.decoder, copy, cut, &r.err), -1);
            }
            check_prefix(&r, &whole);
            rig_release(&r);
            free(copy);
        }
        rig_release(&whole);
        buf_release(&b);
        buf_release(&ends);
    }
}

/* The connection ends after `cut` bytes of the compressed stream: no error, whole frames only. */
static void test_cut_stream(void **state)
{
    (void)state;
    for (unsigned i = 0; i < wire_version_count; i++) {
        const struct wire_version *v = &wire_versions[i];
        struct buf items = {0}, ends = {0};
        struct encoder *enc = encoder_new(v);
        struct err e = {0};
        struct rig whole;
        make_stream(v, &items, &ends);
        size_t at = 0;
        for (size_t k = 0; k < ends.len / 4; k++) { /* a frame of every seven items */
            size_t end = load_u32(ends.data + 4 * k);
            assert_int_equal(encoder_append(enc, items.data + at, end - at, &e), 0);
            if (k % 7 == 6)
                assert_int_equal(encoder_commit(enc, &e), 0);
            at = end;
        }
        assert_int_equal(encoder_commit(enc, &e), 0);
        const struct buf *stream = encoder_output(enc);
        struct frame_reader *frames = frame_reader_new();
        rig_init(&whole, v->protocol, NULL);
        assert_int_equal(rig_feed(&whole, frames, stream->data, stream->len, SIZE_MAX), 0);
        frame_reader_free(frames);
        for (size_t cut = 0; cut < stream->len; cut++) {
            struct rig r;
            frames = frame_reader_new();
            rig_init(&r, v->protocol, NULL);
            assert_int_equal(rig_feed(&r, frames, stream->data, cut, cut % 2 ? SIZE_MAX : 1), 0);
            check_prefix(&r, &whole);
            rig_release(&r);
            frame_reader_free(frames);
        }
        rig_release(&whole);
        encoder_free(enc);
        buf_release(&items);
        buf_release(&ends);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_time_boundaries),
        cmocka_unit_test(test_cut_items),
        cmocka_unit_test(test_cut_stream),
    };
    return cmocka_run_group_tests_name("protocol items", tests, NULL, NULL);
}
