"""The parts of a trace that tests of frames, sections, plots, locks and the system compare, read
apart from the C reader like everything in tracyfile.py. Everything is resolved: names by text,
source locations by content, maps by key."""

from tracyfile import Trace


class Parts(Trace):
    def header(self):
        """As Trace.header, with the topology: (package, die, core) -> cpus."""
        before = self.pos
        super().header()
        end = self.pos
        self.pos = before + 8 + (0 if self.at_least(0, 12, 3) else 8) + 24 + 24 + 17
        self.pos += 1 if self.at_least(0, 9, 2) else 0
        for _ in range(2):
            self.bytes(self.u64())
        self.take("QQ")
        self.bytes(self.u64())
        self.topology = {}
        dies = self.at_least(0, 11, 2)
        for _ in range(self.u64()):
            package = self.take("I")
            count = self.u64()
            for _ in range(count if dies else 1):
                die, cores = self.take("IQ") if dies else (0, count)
                for _ in range(cores):
                    core = self.take("I")
                    cpus = [self.take("I") for _ in range(self.u64())]
                    # Without dies, two may have cores of the same number.
                    self.topology.setdefault((package, die, core), []).extend(cpus)
        assert self.pos == end - 28
        self.pos = end

    def frames_and_sections(self):
        self.frame_sets = []
        for _ in range(self.u64()):
            name, continuous, n = self.take("QBQ")
            time, frames = 0, []
            for _ in range(n):
                time += self.take("q")
                start, end = time, None
                if not continuous:
                    time += self.take("q")
                    end = time
                frames.append((start, end, self.take("i")))
            self.frame_sets.append((name, continuous, frames))
        self.sections, self.section_texts = {}, {}
        if self.at_least(0, 13, 5):
            for _ in range(self.u64()):
                category, n = self.take("HQ")
                self.sections[category] = [self.section() for _ in range(n)]
            for _ in range(self.u64()):
                category = self.take("H")
                self.section_texts[category] = self.u24()
        elif self.at_least(0, 13, 4):
            self.sections[0] = [self.section() for _ in range(self.u64())]

    def i48(self):
        low, high = self.take("Ih")
        return low | high << 32

    def section(self):
        return self.i48(), self.i48(), self.u24()

    def locks(self):
        self.lock_map = {}
        for _ in range(self.u64()):
            number, name = self.take("I"), self.u24()
            srcloc, kind, valid, announced, ended = self.take("hBBqq")
            threads = [self.u64() for _ in range(self.u64())]
            time, events = announced, []
            for _ in range(self.u64()):
                delta, at, thread, event = self.take("qhBB")
                time += delta
                events.append((time, self.source_locations.get(at), threads[thread], event))
            at = self.source_locations.get(srcloc)
            self.lock_map[number] = (self.text(name), at, kind, valid, announced, ended, threads,
                                     events)

    def plots(self):
        self.plot_list = []
        for _ in range(self.u64()):
            kind, form, steps, fill, color, name, *stats = self.take("BBBBIQddd")
            time, points = 0, []
            for _ in range(self.u64()):
                delta, value = self.take("qd")
                time += delta
                points.append((time, value))
            self.plot_list.append((self.pointers.get(name) if kind != 2 else b"", kind, form,
                                   steps, fill, color, tuple(stats), points))

    def tail(self):
        before = self.pos
        super().tail()
        end, self.pos = self.pos, before
        self.skip_list(9)
        self.image_dictionary = self.bytes(self.take("I"))
        self.images = []
        for _ in range(self.u64()):
            w, h, flip = self.take("HHB")
            self.images.append((w, h, flip, self.bytes(w * h // 2)))
        self.pos = end

    # ---- what two traces of one recording have in common

    def named_frame_sets(self):
        return [(self.pointers.get(name) if name >> 63 == 0 else name, continuous, frames)
                for name, continuous, frames in self.frame_sets]

    def parts(self):
        """Part -> its content, comparable between traces."""
        sections = {c: [(s, e, self.text(t)) for s, e, t in v] for c, v in self.sections.items()}
        crash = (self.crash[0], self.crash[1], self.pointers.get(self.crash[2]),
                 self.callstacks[self.crash[3]])
        return {
            "frame sets": self.named_frame_sets(),
            "sections": sections,
            "section texts": {c: self.text(t) for c, t in self.section_texts.items()},
            "locks": self.lock_map,
            "plots": self.plot_list,
            "images": (self.image_dictionary, self.images),
            "topology": self.topology,
            "crash": crash,
            "last time": self.last_time,
            "frame offset": self.frame_offset,
            "threads": set(self.listed_threads),
        }
