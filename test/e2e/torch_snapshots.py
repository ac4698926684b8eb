"""Snapshots of PyTorch's CUDA allocator, of known content: a small allocator with the structures of
the real one (c10/cuda/CUDACachingAllocator.cpp), which also keeps what it did, entry by entry, so
that all that an import reports can be computed without an import."""

import collections
import itertools
import random

MIB = 1 << 20
PAGE = 2 * MIB
FIRST_US = 1_700_000_000_000_000


def frame(name, line, filename="/app/train.py"):
    return {"filename": filename, "line": line, "name": name}


CPP = [frame("torch::unwind::unwind()", 0, "??"),
       frame("c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(int)", 0, "??"),
       frame("at::native::empty_cuda(long)", 0, ""),
       frame("cfunction_call", 543, "Objects/methodobject.c")]


class Site:
    """A line of the program that allocates: its frames, innermost first."""

    def __init__(self, name, line, cpp=False):
        self.name, self.line = name, line
        self.frames = (CPP if cpp else []) + [
            frame("linear", 114, "/venv/lib/python3.12/site-packages/torch/nn/functional.py"),
            frame(name, line), frame("main", 99)]


Block = collections.namedtuple("Block", "address size requested site stream state")


class Gpu:
    """One device. `now` is the true state: {(pool, address): bytes}; `states` has it after each
    entry of the history, with the entries before it."""

    def __init__(self, number=0, max_entries=None, start=0x7F0000000000, clock=None):
        self.number, self.max_entries = number, max_entries
        self.frees_traced = True
        self.entries, self.states, self.now = [], [{}], {}
        self.segments = {}  # address: (size, stream, pool id, [Block], frames)
        self.pages = {}     # address of a mapped page: None
        self.next = start + number * (1 << 40)
        self.clock = clock or itertools.count(FIRST_US, 7)

    def pool(self, kind, pool_id):
        private = f".private-{pool_id[0]}-{pool_id[1]}" if pool_id != (0, 0) else ""
        return f"gpu{self.number}.{kind}{private}"

    def record(self, action, address, size, stream=0, frames=None, pool_id=(0, 0)):
        entry = {"action": action, "device_free" if action == "oom" else "addr": address,
                 "size": size, "stream": stream, "time_us": next(self.clock), "compile_context": "N/A",
                 "user_metadata": "", "pool_id": pool_id}
        if frames is not None:
            entry["frames"] = frames
        self.entries.append(entry)
        self.states.append(dict(self.now))

    def block(self, address):
        for base, (_, stream, pool_id, blocks, _) in self.segments.items():
            for i, block in enumerate(blocks):
                if block.address == address:
                    return base, pool_id, blocks, i
        raise KeyError(address)

    def new_segment(self, size, stream, pool_id, site):
        total = 2 * MIB if size <= MIB else max(20 * MIB, -(-size // PAGE) * PAGE)
        base, self.next = self.next, self.next + total + PAGE
        free = Block(base, total, 0, None, stream, "inactive")
        self.segments[base] = (total, stream, pool_id, [free], site.frames)
        self.now[self.pool("reserved", pool_id), base] = total
        self.record("segment_alloc", base, total, stream, site.frames, pool_id)
        return base

    def alloc(self, requested, site, stream=0, pool_id=(0, 0)):
        size = -(-requested // 512) * 512
        fits = [(base, i) for base, (total, on, pool, blocks, _) in self.segments.items()
                if (on, pool, total == 2 * MIB) == (stream, pool_id, size <= MIB)
                for i, b in enumerate(blocks) if b.state == "inactive" and b.size >= size]
        base, i = min(fits) if fits else (self.new_segment(size, stream, pool_id, site), 0)
        blocks = self.segments[base][3]
        free = blocks[i]
        blocks[i:i + 1] = [Block(free.address, size, requested, site, stream, "active_allocated")]
        if free.size > size:
            blocks[i + 1:i + 1] = [free._replace(address=free.address + size, size=free.size - size)]
        self.now[self.pool("allocated", pool_id), free.address] = requested
        self.record("alloc", free.address, requested, stream, site.frames, pool_id)
        return free.address

    def free(self, address, waits=False):
        """Frees a block; if another stream uses it (`waits`), complete() is still to come."""
        _, pool_id, blocks, i = self.block(address)
        block = blocks[i]
        blocks[i] = block._replace(state="active_pending_free")
        del self.now[self.pool("allocated", pool_id), address]
        if waits:
            self.now[self.pool("pending_free", pool_id), address] = block.requested
        by = [frame("free", 7)] if self.frees_traced else block.site.frames
        self.record("free_requested", address, block.requested, block.stream, by, pool_id)
        if not waits:
            self.complete(address)

    def complete(self, address):
        base, pool_id, blocks, i = self.block(address)
        requested, stream = blocks[i].requested, blocks[i].stream
        blocks[i] = blocks[i]._replace(state="inactive", requested=0, site=None)
        self.now.pop((self.pool("pending_free", pool_id), address), None)
        merged = []
        for block in blocks:
            if merged and block.state == "inactive" == merged[-1].state:
                merged[-1] = merged[-1]._replace(size=merged[-1].size + block.size)
            else:
                merged.append(block)
        blocks[:] = merged
        self.record("free_completed", address, requested, stream, None, pool_id)

    def empty_cache(self):
        for base, (total, stream, pool_id, blocks, _) in list(self.segments.items()):
            if len(blocks) == 1 and blocks[0].state == "inactive":
                del self.segments[base], self.now[self.pool("reserved", pool_id), base]
                self.record("segment_free", base, total, stream, None, pool_id)

    def map(self, page, n, site):
        """Maps (site) or unmaps (None) n pages of an expandable segment, from page number `page` on."""
        base = 0x600000000000 + self.number * (1 << 40)
        pages = [base + (page + i) * PAGE for i in range(n)]
        for address in pages:
            if site:
                self.pages[address] = site
                self.now[self.pool("reserved.expandable", (0, 0)), address] = PAGE
            else:
                del self.pages[address], self.now[self.pool("reserved.expandable", (0, 0)), address]
        self.record("segment_map" if site else "segment_unmap", pages[0], n * PAGE, 0,
                    site.frames if site else None)

    def oom(self, size, free, site):
        self.record("oom", free, size, 0, site.frames)

    def dict_of_segments(self):
        for base, (total, stream, pool_id, blocks, frames) in self.segments.items():
            active = [b for b in blocks if b.state != "inactive"]
            used = [b for b in active if b.state == "active_allocated"]
            yield {"device": self.number, "address": base, "total_size": total,
                   "allocated_size": sum(b.size for b in used),
                   "active_size": sum(b.size for b in active),
                   "requested_size": sum(b.requested for b in used), "stream": stream,
                   "segment_type": "small" if total == 2 * MIB else "large",
                   "segment_pool_id": pool_id, "is_expandable": False, "frames": frames,
                   "blocks": [{"address": b.address, "size": b.size, "requested_size": b.requested,
                               "state": b.state, "frames": b.site.frames if b.site else []}
                              for b in blocks]}
        runs = []
        for address in sorted(self.pages):
            if runs and runs[-1][0] + runs[-1][1] == address:
                runs[-1][1] += PAGE
            else:
                runs.append([address, PAGE])
        for address, size in runs:
            yield {"device": self.number, "address": address, "total_size": size,
                   "allocated_size": 0, "active_size": 0, "requested_size": 0, "stream": 0,
                   "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": True,
                   "frames": [], "blocks": [{"address": address, "size": size, "requested_size": 0,
                                             "state": "inactive", "frames": []}]}

    def history(self):
        n = len(self.entries)
        kept = n if self.max_entries is None else min(n, self.max_entries)
        entries, states = self.entries[n - kept:], self.states[n - kept:]
        if entries and entries[0]["action"] == "free_completed":
            pool = self.pool("pending_free", entries[0]["pool_id"])
            states[0] = {**states[0], (pool, entries[0]["addr"]): entries[0]["size"]}
        return entries, states

    # ---- what an import must find

    def sums(self, state):
        sums = collections.Counter()
        for (pool, _), size in state.items():
            sums[pool] += size
        return sums

    def pools(self):
        """{pool: (live blocks, live bytes, peak bytes)}; an expandable pool's blocks are not
        counted, since parts of mappings are."""
        _, states = self.history()
        peaks = collections.Counter()
        for state in states:
            peaks |= self.sums(state)
        last = states[-1]
        count = collections.Counter(pool for pool, _ in last)
        return {pool: (None if "expandable" in pool else count[pool], self.sums(last)[pool], peak)
                for pool, peak in peaks.items()}

    def early(self):
        """(blocks, bytes) that were allocated before the history."""
        sizes = [size for (pool, _), size in self.history()[1][0].items() if ".allocated" in pool]
        return len(sizes), sum(sizes)

    def live_by_site(self):
        """{(pool, function): bytes} of the blocks of the snapshot; those that are in the history,
        or in the segments with a call stack, have a site."""
        sites = collections.Counter()
        for _, _, pool_id, blocks, _ in self.segments.values():
            for b in blocks:
                if b.state == "active_allocated":
                    sites[self.pool("allocated", pool_id), b.site.name] += b.requested
        return dict(sites)


def snapshot(*gpus):
    return {"segments": [s for gpu in gpus for s in gpu.dict_of_segments()],
            "device_traces": [gpu.history()[0] for gpu in gpus],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
                                   "max_split_size": -1, "garbage_collection_threshold": 0.5,
                                   "roundup_power2_divisions": {"1": 0}},
            "external_annotations": []}


def random_gpu(seed, number=0, steps=600, max_entries=None, clock=None):
    """A device after random allocations on three streams and in two pools."""
    rng = random.Random(seed)
    gpu = Gpu(number, max_entries, clock=clock)
    sites = [Site(f"layer{i}", 10 + i, cpp=i % 2 == 0) for i in range(9)]
    live, waiting, mapped = [], [], set()
    for _ in range(steps):
        what = rng.random()
        if what < 0.45 or not live:
            size = rng.choice((rng.randrange(1, 4096), rng.randrange(4096, MIB),
                               rng.randrange(MIB, 30 * MIB)))
            pool_id = rng.choice(((0, 0), (0, 0), (0, 1)))
            live.append(gpu.alloc(size, rng.choice(sites), rng.choice((0, 0x55AA10)), pool_id))
        elif what < 0.80:
            address = live.pop(rng.randrange(len(live)))
            waits = rng.random() < 0.2
            gpu.free(address, waits)
            if waits:
                waiting.append(address)
        elif what < 0.86 and waiting:
            gpu.complete(waiting.pop(rng.randrange(len(waiting))))
        elif what < 0.90:
            gpu.empty_cache()
        elif what < 0.92:
            gpu.oom(80 << 30, 123 * MIB, rng.choice(sites))
        else:
            page, n = rng.randrange(40), rng.randrange(1, 9)
            span = set(range(page, page + n))
            if not span & mapped:
                gpu.map(page, n, rng.choice(sites))
                mapped |= span
            elif span <= mapped:
                gpu.map(page, n, None)
                mapped -= span
    return gpu


def training(steps=12):
    """A training that keeps each step's loss, and with it an activation, until memory is out: the
    snapshot of docs/pytorch.md, fixtures/pytorch/snapshot.pickle. Its history begins late."""
    gpu = Gpu(max_entries=120, clock=itertools.count(FIRST_US, 1830))
    load, forward = Site("load_model", 12), Site("forward", 31, cpp=True)
    backward, keep = Site("backward", 52, cpp=True), Site("log_loss", 58)
    weights = [gpu.alloc(96 * MIB + 4096 * i, load) for i in range(8)]
    for _ in range(steps):
        activations = [gpu.alloc(24 * MIB, forward) for _ in weights]
        kept = gpu.alloc(48 * MIB, keep)
        gradients = []
        for activation in reversed(activations):
            gradients.append(gpu.alloc(12 * MIB, backward, stream=0x7F0010))
            gpu.free(activation)
        for gradient in gradients:
            gpu.free(gradient, waits=True)
            gpu.complete(gradient)
        assert kept
    gpu.oom(512 * MIB, 260 * MIB, forward)
    return gpu
