# queue-items.tsv → wire_table.c: one array of rows per protocol number, joined with the facts of
# version_facts.h.
#
# The list of items below says what each of Tracy's items means; where its fields lie and how long
# it is comes from the TSV alone. Runs with mawk and gawk.
#
# The first protocol number of the TSV lists all items. Each later one has the items of the number
# before it, with the differences that its rows name. The column "place": "+" appends the item, "="
# gives the item of that name another layout, NAME inserts the item after NAME. The row "= -" states
# that there are no differences. An item's id is its position.

# An item of Tracy's → canonical kind, flags, argument.
function item(name, kind, flags, arg) {
    kind_of[name] = kind
    flags_of[name] = flags == "" ? "0" : flags
    arg_of[name] = arg == "" ? "0" : arg
}

# Fields of a canonical kind: pairs "name SLOT".
function slots(kind, list,    part, n, i) {
    n = split(list, part, " ")
    for (i = 1; i < n; i += 2)
        slot_of[kind, part[i]] = "AT_" part[i + 1]
}

# The same slots for several kinds.
function slots_all(kinds, list,    part, n, i) {
    n = split(kinds, part, " ")
    for (i = 1; i <= n; i++)
        slots(part[i], list)
}

function fail(text) {
    print FILENAME ":" FNR ": " text > "/dev/stderr"
    failed = 1
    exit 1
}

function describe_zones() {
    item("ZoneBegin", "ZONE_BEGIN")
    item("ZoneBegin32", "ZONE_BEGIN")
    item("ZoneBegin16", "ZONE_BEGIN")
    item("ZoneBeginCallstack", "ZONE_BEGIN", "WIRE_F_CALLSTACK")
    item("ZoneBeginCallstack32", "ZONE_BEGIN", "WIRE_F_CALLSTACK")
    item("ZoneBeginCallstack16", "ZONE_BEGIN", "WIRE_F_CALLSTACK")
    item("ZoneBeginAllocSrcLoc", "ZONE_BEGIN", "WIRE_F_PAYLOAD")
    item("ZoneBeginAllocSrcLocCallstack", "ZONE_BEGIN", "WIRE_F_PAYLOAD | WIRE_F_CALLSTACK")
    item("ZoneEnd", "ZONE_END")
    item("ZoneEnd32", "ZONE_END")
    item("ZoneEnd16", "ZONE_END")
    item("ZoneText", "ZONE_TEXT")
    item("ZoneName", "ZONE_NAME")
    item("ZoneColor", "ZONE_COLOR")
    item("ZoneValue", "ZONE_VALUE")
    item("ZoneValidation", "ZONE_VALIDATION")
    slots("ZONE_BEGIN", "srcloc ZONE_SRCLOC")
    slots("ZONE_COLOR", "b ZONE_COLOR")
    slots("ZONE_VALUE", "value ZONE_NUMBER")
    slots("ZONE_VALIDATION", "id ZONE_NUMBER")
}

function describe_messages() {
    item("Message", "MESSAGE")
    item("MessageColor", "MESSAGE")
    item("MessageCallstack", "MESSAGE", "WIRE_F_CALLSTACK")
    item("MessageColorCallstack", "MESSAGE", "WIRE_F_CALLSTACK")
    item("MessageLiteral", "MESSAGE_LITERAL")
    item("MessageLiteralColor", "MESSAGE_LITERAL")
    item("MessageLiteralCallstack", "MESSAGE_LITERAL", "WIRE_F_CALLSTACK")
    item("MessageLiteralColorCallstack", "MESSAGE_LITERAL", "WIRE_F_CALLSTACK")
    item("MessageAppInfo", "APP_INFO")
    slots_all("MESSAGE MESSAGE_LITERAL", \
              "b MESSAGE_COLOR text MESSAGE_TEXT textAndMetadata MESSAGE_TEXT metadata MESSAGE_METADATA")
}

function describe_stacks() {
    item("CallstackSerial", "CALLSTACK_SERIAL")
    item("Callstack", "CALLSTACK")
    item("CallstackAlloc", "CALLSTACK_ALLOC")
    item("CallstackSample", "SAMPLE")
    item("CallstackSample32", "SAMPLE")
    item("CallstackSample16", "SAMPLE")
    item("CallstackSampleContextSwitch", "SWITCH_SAMPLE")
    item("CallstackSampleContextSwitch32", "SWITCH_SAMPLE")
    item("CallstackSampleContextSwitch16", "SWITCH_SAMPLE")
    item("HwSampleCpuCycle", "HW_SAMPLE", "", 0)
    item("HwSampleInstructionRetired", "HW_SAMPLE", "", 1)
    item("HwSampleCacheReference", "HW_SAMPLE", "", 2)
    item("HwSampleCacheMiss", "HW_SAMPLE", "", 3)
    item("HwSampleBranchRetired", "HW_SAMPLE", "", 4)
    item("HwSampleBranchMiss", "HW_SAMPLE", "", 5)
    slots("HW_SAMPLE", "ip KEY")
}

function describe_frames() {
    item("FrameMarkMsg", "FRAME_MARK")
    item("FrameMarkMsgStart", "FRAME_START")
    item("FrameMarkMsgEnd", "FRAME_END")
    item("FrameVsync", "FRAME_VSYNC")
    item("FrameImage", "FRAME_IMAGE")
    slots_all("FRAME_MARK FRAME_START FRAME_END", "name FRAME_NAME")
    slots("FRAME_VSYNC", "id FRAME_NAME")
    slots("FRAME_IMAGE", "frame IMAGE_FRAME w IMAGE_W h IMAGE_H flip IMAGE_FLIP")
}

function describe_locks() {
    item("LockAnnounce", "LOCK_ANNOUNCE")
    item("LockTerminate", "LOCK_TERMINATE")
    item("LockWait", "LOCK_WAIT")
    item("LockObtain", "LOCK_OBTAIN")
    item("LockRelease", "LOCK_RELEASE")
    item("LockSharedWait", "LOCK_WAIT", "WIRE_F_SHARED")
    item("LockSharedObtain", "LOCK_OBTAIN", "WIRE_F_SHARED")
    item("LockSharedRelease", "LOCK_RELEASE", "WIRE_F_SHARED")
    item("LockMark", "LOCK_MARK")
    item("LockName", "LOCK_NAME")
    slots_all("LOCK_ANNOUNCE LOCK_TERMINATE LOCK_WAIT LOCK_OBTAIN LOCK_RELEASE LOCK_MARK LOCK_NAME", \
              "id LOCK_ID lckloc LOCK_SRCLOC srcloc LOCK_SRCLOC type LOCK_TYPE")
}

function describe_memory() {
    item("MemAlloc", "MEM_ALLOC")
    item("MemAllocNamed", "MEM_ALLOC", "WIRE_F_NAMED")
    item("MemAllocCallstack", "MEM_ALLOC", "WIRE_F_CALLSTACK")
    item("MemAllocCallstackNamed", "MEM_ALLOC", "WIRE_F_CALLSTACK | WIRE_F_NAMED")
    item("MemFree", "MEM_FREE")
    item("MemFreeNamed", "MEM_FREE", "WIRE_F_NAMED")
    item("MemFreeCallstack", "MEM_FREE", "WIRE_F_CALLSTACK")
    item("MemFreeCallstackNamed", "MEM_FREE", "WIRE_F_CALLSTACK | WIRE_F_NAMED")
    item("MemDiscard", "MEM_DISCARD")
    item("MemDiscardCallstack", "MEM_DISCARD", "WIRE_F_CALLSTACK")
    item("MemNamePayload", "MEM_NAME")
    slots_all("MEM_ALLOC MEM_FREE", "ptr MEM_PTR size MEM_SIZE")
    slots_all("MEM_DISCARD MEM_NAME", "name MEM_POOL")
}

function describe_gpu(    name, n, i, part) {
    item("GpuNewContext", "GPU_CONTEXT")
    item("GpuContextName", "GPU_CONTEXT_NAME")
    item("GpuZoneBegin", "GPU_ZONE_BEGIN")
    item("GpuZoneBeginCallstack", "GPU_ZONE_BEGIN", "WIRE_F_CALLSTACK")
    item("GpuZoneBeginAllocSrcLoc", "GPU_ZONE_BEGIN", "WIRE_F_PAYLOAD")
    item("GpuZoneBeginAllocSrcLocCallstack", "GPU_ZONE_BEGIN", "WIRE_F_PAYLOAD | WIRE_F_CALLSTACK")
    item("GpuZoneEnd", "GPU_ZONE_END")
    n = split("GpuZoneBegin GpuZoneBeginCallstack GpuZoneBeginAllocSrcLoc " \
              "GpuZoneBeginAllocSrcLocCallstack GpuZoneEnd", part, " ")
    for (i = 1; i <= n; i++) {
        name = part[i]
        item(name "Serial", kind_of[name], \
             flags_of[name] == "0" ? "WIRE_F_SERIAL" : flags_of[name] " | WIRE_F_SERIAL")
    }
    item("GpuTime", "GPU_TIME")
    item("GpuCalibration", "GPU_CALIBRATION")
    item("GpuTimeSync", "GPU_TIME_SYNC")
    item("GpuAnnotationName", "GPU_NOTE_NAME")
    item("GpuZoneAnnotation", "GPU_NOTE")
    slots_all("GPU_ZONE_BEGIN GPU_ZONE_END", \
              "queryId GPU_QUERY context GPU_CONTEXT srcloc GPU_SRCLOC")
    slots_all("GPU_CONTEXT GPU_TIME GPU_CALIBRATION GPU_TIME_SYNC", \
              "queryId GPU_QUERY context GPU_CONTEXT gpuTime GPU_TIME")
    slots("GPU_CALIBRATION", "cpuDelta GPU_DELTA")
    slots("GPU_CONTEXT", "period GPU_PERIOD flags GPU_FLAGS type GPU_TYPE")
    slots_all("GPU_CONTEXT_NAME GPU_NOTE_NAME GPU_NOTE", \
              "queryId GPU_QUERY context GPU_CONTEXT noteId GPU_NOTE value GPU_VALUE")
}

function describe_system() {
    item("PlotDataInt", "PLOT", "", "WIRE_PLOT_INT")
    item("PlotDataFloat", "PLOT", "", "WIRE_PLOT_FLOAT")
    item("PlotDataDouble", "PLOT", "", "WIRE_PLOT_DOUBLE")
    item("PlotConfig", "PLOT_CONFIG")
    slots("PLOT", "name PLOT_NAME val PLOT_VALUE")
    slots("PLOT_CONFIG", \
          "name PLOT_NAME type PLOT_TYPE step PLOT_STEP fill PLOT_FILL color PLOT_COLOR")
    item("ContextSwitch", "CONTEXT_SWITCH")
    item("ThreadWakeup", "THREAD_WAKEUP")
    item("TidToPid", "TID_TO_PID")
    slots("CONTEXT_SWITCH", "newThread SWITCH_NEW_THREAD cpu SWITCH_CPU reason SWITCH_REASON " \
          "oldThreadWaitReason SWITCH_REASON state SWITCH_STATE oldThreadState SWITCH_STATE " \
          "previousCState SWITCH_CSTATE newThreadPriority SWITCH_NEW_PRIORITY " \
          "oldThreadPriority SWITCH_OLD_PRIORITY")
    slots("THREAD_WAKEUP", \
          "cpu WAKEUP_CPU adjustReason WAKEUP_REASON adjustIncrement WAKEUP_INCREMENT")
    slots("TID_TO_PID", "tid KEY pid PID")
    item("SysTimeReport", "SYS_TIME")
    item("SysPowerReport", "SYS_POWER")
    slots("SYS_TIME", "sysTime SYS_VALUE")
    slots("SYS_POWER", "delta SYS_VALUE name SYS_NAME")
    item("CpuTopology", "CPU_TOPOLOGY")
    slots("CPU_TOPOLOGY", "package CPU_PACKAGE die CPU_DIE core CPU_CORE thread CPU_THREAD")
    item("ParamSetup", "PARAM")
    slots("PARAM", "idx PARAM_ID name PARAM_NAME isBool PARAM_TYPE type PARAM_TYPE val PARAM_VALUE")
}

function describe_session() {
    item("ThreadContext", "THREAD_CONTEXT")
    item("ThreadGroupHint", "THREAD_GROUP_HINT")
    item("FiberEnter", "FIBER_ENTER")
    item("FiberLeave", "FIBER_LEAVE")
    slots_all("THREAD_GROUP_HINT FIBER_ENTER", "fiber FIBER groupHint HINT")
    item("SectionSetup", "SECTION_SETUP")
    item("SectionEnter", "SECTION_ENTER")
    item("SectionLeave", "SECTION_LEAVE")
    slots_all("SECTION_SETUP SECTION_ENTER SECTION_LEAVE", \
              "id SECTION_ID category SECTION_CATEGORY")
    item("CrashReport", "CRASH_REPORT")
    slots("CRASH_REPORT", "text KEY")
    item("Crash", "CRASH")
    item("Terminate", "TERMINATE")
    item("KeepAlive", "KEEP_ALIVE")
    item("SingleStringData", "SINGLE_STRING")
    item("SingleStringData8", "SINGLE_STRING")
    item("SecondStringData", "SECOND_STRING")
    item("SecondStringData8", "SECOND_STRING")
    item("SourceLocationPayload", "SRCLOC_PAYLOAD")
    item("CallstackPayload", "CALLSTACK_PAYLOAD")
    item("CallstackAllocPayload", "CALLSTACK_ALLOC_PAYLOAD")
    item("FrameImageData", "FRAME_IMAGE_DATA")
}

function describe_replies() {
    item("SourceLocation", "SOURCE_LOCATION")
    slots("SOURCE_LOCATION", "name SRCLOC_NAME function SRCLOC_FUNCTION file SRCLOC_FILE " \
          "line SRCLOC_LINE b SRCLOC_COLOR")
    item("CallstackFrameSize", "CALLSTACK_FRAME_SIZE")
    slots("CALLSTACK_FRAME_SIZE", "ptr KEY size FRAME_COUNT")
    item("CallstackFrame", "CALLSTACK_FRAME")
    item("SymbolInformation", "SYMBOL")
    slots_all("CALLSTACK_FRAME SYMBOL", "symAddr KEY line FRAME_LINE symLen FRAME_LEN")
    item("AckServerQueryNoop", "ACK_NOOP")
    item("AckSourceCodeNotAvailable", "ACK_NO_SOURCE")
    slots("ACK_NO_SOURCE", "id KEY")
    item("AckSymbolCodeNotAvailable", "ACK_NO_SYMBOL_CODE")
    item("StringData", "STRING_DATA")
    item("ThreadName", "THREAD_NAME")
    item("PlotName", "PLOT_NAME")
    item("FrameName", "FRAME_NAME")
    item("FiberName", "FIBER_NAME")
    item("ExternalName", "EXTERNAL_NAME")
    item("ExternalThreadName", "EXTERNAL_THREAD_NAME")
    item("SymbolCode", "SYMBOL_CODE")
    item("SourceCode", "SOURCE_CODE")
    slots_all("SRCLOC_PAYLOAD CALLSTACK_PAYLOAD CALLSTACK_ALLOC_PAYLOAD FRAME_IMAGE_DATA " \
              "STRING_DATA THREAD_NAME PLOT_NAME FRAME_NAME FIBER_NAME EXTERNAL_NAME " \
              "EXTERNAL_THREAD_NAME SYMBOL_CODE SOURCE_CODE", "ptr KEY")
}

BEGIN {
    FS = "\t"
    describe_zones()
    describe_messages()
    describe_stacks()
    describe_frames()
    describe_locks()
    describe_memory()
    describe_gpu()
    describe_system()
    describe_session()
    describe_replies()

    split("u8 i8 u16 u32 i32 u48 u64 i64 f32 f64", types, " ")
    for (i in types)
        type_of[types[i]] = "WIRE_" toupper(types[i])
    type_of["u64tag"] = "WIRE_U64_TAG_LOW"
    type_of["u64htag"] = "WIRE_U64_TAG_HIGH"
    tail_of["u8 bytes[len]"] = "WIRE_TAIL_8"
    tail_of["u16 bytes[len]"] = "WIRE_TAIL_16"
    tail_of["u16 bytes[len+256]"] = "WIRE_TAIL_16_PLUS_256"
    tail_of["u32 bytes[len]"] = "WIRE_TAIL_32"

    print "/* Generated from protocol/queue-items.tsv by protocol/gen-wire-table.awk. */"
    print "#include \"protocol/version_facts.h\"\n"
}

function put(id, item_name, item_size, item_fields) {
    name[protocol, id] = item_name
    size[protocol, id] = item_size
    fields[protocol, id] = item_fields
    exists[protocol, item_name] = 1
}

# Begins the current protocol with the items of `before`.
function begin_protocol(before,    id) {
    order[++protocols] = protocol
    count[protocol] = before == "" ? 0 : count[before]
    for (id = 0; id < count[protocol]; id++)
        put(id, name[before, id], size[before, id], fields[before, id])
}

function position(item_name,    id) {
    for (id = 0; id < count[protocol]; id++)
        if (name[protocol, id] == item_name)
            return id
    fail("protocol " protocol " has no item " item_name)
}

# Makes room for an item.
function insert(at,    id) {
    for (id = count[protocol]++; id > at; id--)
        put(id, name[protocol, id - 1], size[protocol, id - 1], fields[protocol, id - 1])
}

FNR == 1 {
    next
}

{
    if (NF != 5)
        fail("expected 5 columns")
    protocol = $1
    if (!(protocol in count))
        begin_protocol(order[protocols])
    if ($3 == "-")
        next
    if ($2 == "=" ? !((protocol, $3) in exists) : (protocol, $3) in exists)
        fail($3 ($2 == "=" ? " is not" : " is already") " in protocol " protocol)
    if ($2 == "=")
        id = position($3)
    else
        insert(id = $2 == "+" ? count[protocol] : position($2) + 1)
    put(id, $3, $4, $5)
}

# The time form of an item: a 64-bit time is biased where the item has shorter siblings.
function time_form(protocol, item_name,    base) {
    base = substr(item_name, 1, length(item_name) - 2)
    if (item_name ~ /32$/ && (protocol, base) in exists)
        return "WIRE_TIME_32"
    if (item_name ~ /16$/ && (protocol, base) in exists)
        return "WIRE_TIME_16"
    if ((protocol, item_name "32") in exists || (protocol, item_name "16") in exists)
        return "WIRE_TIME_BIASED"
    return "WIRE_TIME_PLAIN"
}

function slot_for(kind, field) {
    if ((kind, field) in slot_of)
        return slot_of[kind, field]
    if (field == "time" || field == "cpuTime")
        return "AT_TIME"
    if (field == "thread" || field == "oldThread")
        return "AT_THREAD"
    return ""
}

# Splits the field list of a row; fills at_text, tail, info_text and info_count.
function layout(kind, list, item_name,    part, n, i, f, t, slot, offset, color, len_type) {
    at_text = info_text = ""
    tail = "WIRE_TAIL_NONE"
    info_count = 0
    if (list == "-" || list == "!never-on-wire")
        return
    n = split(list, part, ",")
    for (i = 1; i <= n; i++) {
        split(part[i], f, ":")
        split(f[2], t, "@")
        if (f[1] == "+len") {
            len_type = t[1]
            continue
        }
        if (f[1] == "+data") {
            if (!((len_type " " t[1]) in tail_of))
                fail(item_name ": unknown tail " len_type " " t[1])
            tail = tail_of[len_type " " t[1]]
            continue
        }
        if (!(t[1] in type_of))
            fail(item_name ": unknown type " t[1])
        offset = t[2] + 1
        info_text = info_text "{\"" f[1] "\", " type_of[t[1]] ", " t[2] "}, "
        info_count++
        if (f[1] == "b")
            color = offset
        if (f[1] == "g" || f[1] == "r") {
            if (offset != color + (f[1] == "g" ? 1 : 2))
                fail(item_name ": colour bytes are not b, g, r")
            continue
        }
        slot = slot_for(kind, f[1])
        if (slot == "")
            fail(item_name ": no slot for field " f[1])
        at_text = at_text "[" slot "] = " offset ", "
    }
}

function emit(protocol,    id, item_name, kind, items, infos, list) {
    items = infos = ""
    for (id = 0; id < count[protocol]; id++) {
        item_name = name[protocol, id]
        list = fields[protocol, id]
        kind = list == "!never-on-wire" ? "NONE" : kind_of[item_name]
        if (kind == "")
            fail("no meaning given for item " item_name)
        layout(kind, list, item_name)
        if (info_count && !(info_text in fields_id)) {
            fields_id[info_text] = ++fields_total
            printf "static const struct wire_field fields_%d[] = {%s};\n", fields_total, info_text
        }
        items = items sprintf("    {WIRE_%s, %d, %s, %s, %s, %s, {%s}},\n", kind, \
                              size[protocol, id], item_name in flags_of ? flags_of[item_name] : "0", \
                              time_form(protocol, item_name), tail, \
                              item_name in arg_of ? arg_of[item_name] : "0", \
                              at_text == "" ? "0" : at_text)
        infos = infos sprintf("    {\"%s\", %s, %d},\n", item_name, \
                              info_count ? "fields_" fields_id[info_text] : "0", info_count)
    }
    printf "\nstatic const struct wire_item items_%d[] = {\n%s};\n", protocol, items
    printf "\nstatic const struct wire_item_info info_%d[] = {\n%s};\n\n", protocol, infos
}

END {
    if (failed)
        exit 1
    for (i = 1; i <= protocols; i++)
        emit(order[i])
    print "const struct wire_version wire_versions[] = {"
    for (i = 1; i <= protocols; i++)
        printf "    {%d, WIRE_FACTS_%d, %d, items_%d, info_%d},\n", order[i], order[i], \
               count[order[i]], order[i], order[i]
    print "};"
    printf "\nconst unsigned wire_version_count = %d;\n", protocols
}
